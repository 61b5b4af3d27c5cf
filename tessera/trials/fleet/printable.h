// Text of others for a terminal.
#pragma once

#include <string>
#include <string_view>

namespace tessera::fleet {

// What an agent calls itself or gives as a reason may hold what makes a terminal do things: control
// characters, among them those of Unicode, and bytes that are no UTF-8 become '?'.
std::string printable(std::string_view text);
// The same, but lines and tabs stay.
std::string printable_lines(std::string_view text);

}  // namespace tessera::fleet
