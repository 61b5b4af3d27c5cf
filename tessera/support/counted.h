// Numbers of things in messages.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace tessera {

// "1 task", "2 tasks"; `one` is a noun whose plural ends in s.
std::string counted(std::integral auto number, std::string_view one) {
  return fmt::format("{} {}{}", number, one, number == 1 ? "" : "s");
}

}  // namespace tessera
