// The C compiler that links an artifact's object to a shared library.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::artifact {

struct Linker {
  std::vector<std::string> command;  // the program and the arguments that choose the target
  bool has_c_library = true;         // of the target
};

// `cc`: a program, or empty: the system's compiler for this architecture, <arch>-linux-gnu-gcc or
// clang --target for another; the first that links an empty library, if possible with the C
// library. kUnavailable says why each of them did not, and which package has one that does.
Result<Linker> find_linker(const target::Target& target, const std::string& cc);

// Links an object in `folder` to a shared library there. Without the target's C library, empty ones
// with its names stand for it: the machine that opens the artifact finds the functions in its own.
// `more`: -lm or -ldl.
Result<void> link_library(const Linker& linker, const std::string& folder,
                          const std::string& object, const std::string& library,
                          std::string_view more);

}  // namespace tessera::artifact
