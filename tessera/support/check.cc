#include "tessera/support/check.h"

namespace tessera {

void throw_internal_error(const char* file, int line, const char* condition,
                          const std::string& message) {
  throw InternalError(fmt::format("{}:{}: {} (violated: {})", file, line, message, condition));
}

}  // namespace tessera
