// How deep the arrays and objects of a JSON text are nested, before anything reads it: readers and
// printers of nested values call themselves.
#pragma once

#include <cstddef>
#include <string_view>

namespace tessera {

// True for every text that is nested more than `most` deep; others may be no JSON at all.
constexpr bool is_deeper_than(std::string_view json, int most) {
  bool quoted = false;
  int depth = 0;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > most) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace tessera
