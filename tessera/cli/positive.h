// A check of options whose message fits in a line: the one of CLI11 names the largest double.
#pragma once

#include <string>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace tessera::cli {

inline CLI::Validator positive() {
  const auto test = [](std::string& text) {
    double value = 0;
    const bool above = CLI::detail::lexical_cast(text, value) && value > 0;
    return above ? std::string() : fmt::format("{} is not a number above 0", text);
  };
  return CLI::Validator(test, "POSITIVE");
}

}  // namespace tessera::cli
