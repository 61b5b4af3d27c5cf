#include "tessera/support/nearest_name.h"

#include <algorithm>
#include <numeric>

namespace tessera {
namespace {

// A long stray argument is not worth comparing; this is beyond any name.
constexpr std::size_t kMostLetters = 64;

std::string lower(std::string_view text) {
  std::string out(text.substr(0, kMostLetters));
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  const std::string wanted = lower(name);
  const auto nearest = std::ranges::min_element(names, {}, [&](const std::string& candidate) {
    const std::string given = lower(candidate);
    // "skylake" means "skylake-avx512", however many letters are missing.
    return !wanted.empty() && given.starts_with(wanted) ? 0 : edit_distance(wanted, given);
  });
  return nearest == names.end() ? std::string() : *nearest;
}

}  // namespace tessera
