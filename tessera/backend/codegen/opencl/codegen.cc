#include <algorithm>

#include "tessera/backend/codegen/back_ends.h"
#include "tessera/backend/codegen/opencl/printer.h"

namespace tessera::codegen {

Result<Binary> compile_opencl(const ir::DeviceProgram& program, const target::Target& target,
                              const CodegenOptions&, CodegenTimes*) {
  TESSERA_TRY(Binary binary, describe(program, target, runtime::BinaryKind::kOpenClC));
  std::string text =
      opencl_prelude(std::any_of(program.launches.begin(), program.launches.end(), uses_f64));
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    TESSERA_TRY(const std::string kernel,
                print_opencl(program.launches[i], binary.launches[i].name));
    text += "\n" + kernel;
  }
  binary.bytes.assign(text.begin(), text.end());
  return binary;
}

}  // namespace tessera::codegen
