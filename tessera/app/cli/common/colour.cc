#include "tessera/app/cli/common/colour.h"

#include <cstdlib>

#include <fmt/format.h>
#include <unistd.h>

namespace tessera::cli {
namespace {

bool takes_colour(std::FILE* stream) {
  const char* const no_colour = std::getenv("NO_COLOR");
  if (no_colour != nullptr && *no_colour != '\0') return false;
  const char* const terminal = std::getenv("TERM");
  if (terminal == nullptr || std::string_view(terminal) == "dumb") return false;
  // By number: stderr is a stream without one (guard_standard_streams).
  return ::isatty(stream == stderr ? STDERR_FILENO : STDOUT_FILENO) != 0;
}

const char* code_of(Colour colour) {
  switch (colour) {
    case Colour::kRed:
      return "31";
    case Colour::kYellow:
      return "33";
    case Colour::kGreen:
      return "32";
  }
  return "0";
}

}  // namespace

std::string coloured(Colour colour, std::string_view text, std::FILE* stream) {
  if (!takes_colour(stream)) return std::string(text);
  return fmt::format("\x1b[1;{}m{}\x1b[0m", code_of(colour), text);
}

void print_warning(std::string_view text) {
  fmt::print(stderr, "tessera: {} {}\n", coloured(Colour::kYellow, "warning:", stderr), text);
}

}  // namespace tessera::cli
