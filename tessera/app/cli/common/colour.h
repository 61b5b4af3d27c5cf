// Colour for people at terminals: none where output goes elsewhere, where NO_COLOR is set
// (https://no-color.org) or where the terminal is dumb.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tessera::cli {

enum class Colour : std::uint8_t { kRed, kYellow, kGreen };

// The text as stdout or stderr is to have it.
std::string coloured(Colour colour, std::string_view text, std::FILE* stream = stdout);

// "tessera: warning: TEXT" as a line of stderr.
void print_warning(std::string_view text);

}  // namespace tessera::cli
