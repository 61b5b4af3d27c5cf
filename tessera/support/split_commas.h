// Lists in flags and notes: "a,b,c".
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Without the empty parts.
inline std::vector<std::string> split_commas(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    if (!part.empty()) out.emplace_back(part);
    text.remove_prefix(std::min(part.size() + 1, text.size()));
  }
  return out;
}

}  // namespace tessera
