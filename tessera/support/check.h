// TESSERA_CHECK: a condition that only a bug in Tessera can break. Never reachable from user input.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace tessera {

// Caught only by the mains of the program and of its workers, which report a bug and stop.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

[[noreturn]] void throw_internal_error(const char* file, int line, const char* condition,
                                       const std::string& message);

}  // namespace tessera

// The message is formatted only on failure.
#define TESSERA_CHECK(cond, ...)                                                            \
  do {                                                                                      \
    if (!(cond))                                                                            \
      ::tessera::throw_internal_error(__FILE__, __LINE__, #cond, fmt::format(__VA_ARGS__)); \
  } while (false)
