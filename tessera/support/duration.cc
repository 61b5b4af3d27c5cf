#include "tessera/support/duration.h"

#include <charconv>
#include <cmath>
#include <string_view>

namespace tessera {
namespace {

// The unit at the front of `text`, which is taken off it; 0: there is none of that name.
double take_unit(std::string_view* text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  static constexpr Unit kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  if (text->empty()) return 1;
  for (const Unit& u : kUnits) {
    if (!text->starts_with(u.name)) continue;
    text->remove_prefix(u.name.size());
    return u.seconds;
  }
  return 0;
}

}  // namespace

Result<double> parse_duration(const std::string& text) {
  constexpr double kLongestSeconds = 1e8;
  double total = 0;
  std::string_view left = text;
  bool good = !text.empty();
  while (good && !left.empty()) {
    double value = 0;
    const auto [rest, error] =
        std::from_chars(left.data(), left.data() + left.size(), value, std::chars_format::fixed);
    good = error == std::errc() && value >= 0;
    if (!good) break;
    left.remove_prefix(static_cast<std::size_t>(rest - left.data()));
    const double unit = take_unit(&left);
    good = unit > 0;
    total += value * unit;
  }
  if (good && total <= kLongestSeconds) return total;
  return make_error(ErrorCode::kInvalidArgument, "'{}' is not a duration; write 90s, 5m or 1h30m",
                    text);
}

std::string to_duration(double seconds) {
  if (seconds < 60 || seconds != std::floor(seconds)) return fmt::format("{:g}s", seconds);
  const auto whole = static_cast<long long>(seconds);
  std::string text;
  if (whole >= 3600) text += fmt::format("{}h", whole / 3600);
  if (whole / 60 % 60 > 0) text += fmt::format("{}m", whole / 60 % 60);
  if (whole % 60 > 0) text += fmt::format("{}s", whole % 60);
  return text;
}

}  // namespace tessera
