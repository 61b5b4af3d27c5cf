#include "tessera/support/nearest_name.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace tessera {
namespace {

// A long stray argument is not worth comparing; this is beyond any name.
constexpr std::size_t kMostLetters = 64;

std::string lower(std::string_view text) {
  std::string out(text.substr(0, kMostLetters));
  for (char& c : out) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Letters inserted, deleted, replaced or exchanged with their neighbour.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before, last, row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(last, row);
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({replaced, last[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row.back();
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& names) {
  const std::string wanted = lower(name);
  std::size_t least = (wanted.size() + 1) / 3 + 1;
  std::string nearest;
  for (const std::string& candidate : names) {
    const std::string given = lower(candidate);
    // "skylake" means "skylake-avx512", however many letters are missing.
    const bool begins = !wanted.empty() && given.starts_with(wanted);
    const std::size_t distance = begins ? 0 : edit_distance(wanted, given);
    if (distance >= least) continue;
    least = distance;
    nearest = candidate;
  }
  return nearest;
}

std::string suggest_name(std::string_view name, const std::vector<std::string>& names,
                         std::string_view otherwise) {
  const std::string nearest = nearest_name(name, names);
  return nearest.empty() ? std::string(otherwise) : "; did you mean '" + nearest + "'?";
}

}  // namespace tessera
