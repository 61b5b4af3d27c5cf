// How LLVM orders the instructions of generated code.
#pragma once

#include "tessera/target/target.h"

namespace tessera::codegen {

// Sets LLVM's process-wide options for code of this architecture; call before emitting.
void set_schedule_options(target::Arch arch);

}  // namespace tessera::codegen
