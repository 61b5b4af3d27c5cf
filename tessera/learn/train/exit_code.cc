#include "tessera/learn/train/exit_code.h"

#include <cstdio>

#include <fmt/core.h>

namespace tessera::train {

int report(const std::string& program, const Error& error) {
  fmt::print(stderr, "{}: {}\n", program, error.message);
  if (error.code == ErrorCode::kUnavailable) return kUnreachable;
  return error.code == ErrorCode::kRunFailed ? kInternal : kUsage;
}

}  // namespace tessera::train
