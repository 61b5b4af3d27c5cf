// The error of what someone gave.
#pragma once

#include <utility>

#include "tessera/support/result.h"

namespace tessera {

template <class... Args>
Error invalid(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

}  // namespace tessera
