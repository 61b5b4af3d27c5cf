// AMX instructions on every x86-64 processor: where they raise SIGILL, a handler executes them.
#pragma once

#include <cstdint>

namespace tessera::testing {

// Whether AMX instructions can be executed in this process. The first call asks the kernel for the
// permission; where the processor or the kernel has no AMX, or the environment has
// TESSERA_AMX_TRAP=1 (then when the program begins), it installs a handler that executes them on
// tiles of the thread in software. From then on the kernel's answer to a request for permission is
// success, in processes started by this one too: those need the handler as well. False on
// architectures other than x86-64.
bool enable_amx();

// Whether the handler executes the instructions.
bool amx_is_emulated();

// Instructions that the handler executed so far, of all threads.
std::int64_t emulated_amx_instructions();

}  // namespace tessera::testing
