// The C compiler that turns an artifact's source into a library.
#pragma once

#include <string>
#include <vector>

#include "tessera/support/result.h"
#include "tessera/target/target.h"

namespace tessera::artifact {

struct Toolchain {
  std::vector<std::string> cc;  // the program and the arguments that choose the target
  std::string ar;
};

// `cc`: a program, or empty: the system's compiler for this architecture, <arch>-linux-gnu-gcc or
// clang --target for another; the first that compiles and, where `links`, links an empty library:
// what is not linked needs the headers of the C library alone. kUnavailable says why each of them
// did not, and which packages have one that does.
Result<Toolchain> find_toolchain(const target::Target& target, const std::string& cc,
                                 bool links = true);

}  // namespace tessera::artifact
