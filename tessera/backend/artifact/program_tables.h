// The tables that an artifact's C runtime reads, as data of an object file.
#pragma once

#include <optional>
#include <string>

#include "tessera/backend/artifact/data_image.h"
#include "tessera/backend/artifact/device_program.h"
#include "tessera/backend/artifact/metadata.h"
#include "tessera/backend/artifact/weights.h"
#include "tessera/backend/exec/compile_model.h"

namespace tessera::artifact {

// Symbol of the kernel of `task`: "PREFIX_kernel3".
std::string kernel_symbol(const std::string& prefix, std::size_t task);

// What both kinds of programs refer to.
struct TableParts {
  const Metadata& metadata;
  const exec::CompiledModel& model;
  const Weights& weights;
  ObjectLinker::Address json;                       // the metadata, zero-terminated
  std::optional<ObjectLinker::Address> embedded{};  // the weights
  std::string symbols{};                            // prefix of the kernels'
};

// Of processors: one program, or variants in the order in which they are tried; `all` describes
// them together. Needs: every step of the models is a kernel or has a
// host_call. Defines tsr_the_program and
// tsr_the_info; the kernels are symbols.
void add_programs(const std::vector<TableParts>& variants, const TableParts& all, DataImage* image,
                  ObjectLinker* linker);
// Of GPUs. code: that of all modules, if there are any.
void add_device_program(const TableParts& parts, const DeviceProgram& program,
                        std::optional<ObjectLinker::Address> code, DataImage* image,
                        ObjectLinker* linker);

}  // namespace tessera::artifact
