#include "tessera/app/generate/stop_strings.h"

#include <algorithm>
#include <utility>

namespace tessera::app {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopStrings::push(std::string_view text) {
  if (stopped_) return {};
  held_ += text;
  std::size_t first = std::string::npos, first_end = std::string::npos, hold = 0;
  for (const std::string& stop : stops_) {
    // Of several the one that is complete first, however the text is cut into pieces.
    const std::size_t at = held_.find(stop);
    if (at != std::string::npos && std::pair(at + stop.size(), at) < std::pair(first_end, first)) {
      first = at;
      first_end = at + stop.size();
    }
    // The longest end that the string may begin with.
    for (std::size_t n = std::min(stop.size() - 1, held_.size()); n > hold; --n) {
      if (std::string_view(held_).substr(held_.size() - n) == std::string_view(stop).substr(0, n)) {
        hold = n;
        break;
      }
    }
  }
  stopped_ = first != std::string::npos;
  const std::size_t certain = stopped_ ? first : held_.size() - hold;
  std::string out = held_.substr(0, certain);
  held_.erase(0, stopped_ ? held_.size() : certain);
  return out;
}

std::string StopStrings::finish() { return std::exchange(held_, {}); }

}  // namespace tessera::app
