// Puts relocatable object code into this process without a linker.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::runtime {

// Owns the memory of the code; the code must not run after its destruction.
class LoadedObject {
 public:
  virtual ~LoadedObject() = default;
  virtual void* symbol(const std::string& name) const = 0;  // null: not there
};

// `object` is a little-endian ELF64 relocatable file of this machine's architecture. Undefined
// symbols may be those that kernels call (functions of libm, memcpy and a few more) and are looked
// up in the process. kBuildFailed: damaged, of another architecture, or with a relocation or symbol
// that is not known; the message names it.
Result<std::unique_ptr<LoadedObject>> load_object(std::string_view object);

// Whether load_object on a machine of that architecture would succeed, whatever this machine is;
// `symbol` must be in it. Undefined symbols that kernels may call count as known.
Result<void> check_object(std::string_view object, target::Arch arch, const std::string& symbol);

}  // namespace tessera::runtime
