// How the program ends.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::train {

// As those of `tessera`.
enum ExitCode { kOk = 0, kInternal = 1, kUsage = 2, kUnreachable = 6, kInterrupted = 130 };

// Prints the message to stderr.
int report(const std::string& program, const Error& error);

}  // namespace tessera::train
