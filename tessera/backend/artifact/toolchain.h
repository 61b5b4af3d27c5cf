// The C compiler that links an artifact's object to a shared library.
#pragma once

#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

// The program and the arguments that choose the target. `cc`: a program, or empty: the system's
// compiler for this architecture, <arch>-linux-gnu-gcc or clang --target for another; the first
// that links an empty library with the C library. kUnavailable says why each of them did not, and
// which packages have one that does.
Result<std::vector<std::string>> find_linker(const target::Target& target, const std::string& cc);

}  // namespace tessera::artifact
