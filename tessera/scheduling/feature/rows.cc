#include "tessera/scheduling/feature/rows.h"

#include <array>

#include <fmt/ranges.h>

namespace tessera::feature {
namespace {

constexpr std::array<const char*, 3> kTexts = {"statement", "loop", "step"};

}  // namespace

const char* to_text(Rows rows) { return kTexts[static_cast<std::size_t>(rows)]; }

Result<Rows> rows_from_text(const std::string& text) {
  for (std::size_t i = 0; i < kTexts.size(); ++i) {
    if (text == kTexts[i]) return static_cast<Rows>(i);
  }
  return make_error(ErrorCode::kInvalidArgument, "rows '{}' are not one of {}", text,
                    fmt::join(kTexts, ", "));
}

}  // namespace tessera::feature
