// Whether every way into Tessera makes the same code of a model.
#pragma once

#include <string>

namespace tessera::capi {

// `tessera run`, `tessera compile`, the C interface (in this process, and what it saves and loads)
// and the C++ header, with one thread.
void expect_same_code(const std::string& model);
// What only the program can be told: `tessera run` and `tessera compile` with these flags.
void expect_same_code_of_program(const std::string& model, const std::string& flags);

}  // namespace tessera::capi
