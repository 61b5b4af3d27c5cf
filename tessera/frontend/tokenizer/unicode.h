// Code points: from and to UTF-8, and their general categories.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

// In the order of the generated table.
enum class Category : std::uint8_t {
  kLu,
  kLl,
  kLt,
  kLm,
  kLo,
  kMn,
  kMc,
  kMe,
  kNd,
  kNl,
  kNo,
  kPc,
  kPd,
  kPs,
  kPe,  // clang-format off
  kPi, kPf, kPo, kSm, kSc, kSk, kSo, kZs, kZl, kZp, kCc, kCf, kCs, kCo, kCn,  // clang-format on
};
inline constexpr int kCategoryCount = 30;

// A set of categories; each code point has exactly one.
using Categories = std::uint32_t;
constexpr Categories only(Category c) { return 1u << static_cast<int>(c); }
inline constexpr Categories kAllCategories = (1u << kCategoryCount) - 1;

Category category_of(char32_t c);
// The property White_Space.
bool is_space(char32_t c);

// "L", "Lu", "N": the categories whose two letters begin with the name; 0 for any other name.
Categories categories_named(std::string_view name);

// The code point at the start of `text`, which is not empty, and its bytes. A byte that begins no
// valid character is U+FFFD of one byte.
struct CodePoint {
  char32_t value = 0;
  std::size_t bytes = 0;
};
CodePoint first_code_point(std::string_view text);
void append_utf8(std::string* out, char32_t c);

// How many bytes at the end of `text` begin a character that more bytes may complete: 0 to 3.
std::size_t incomplete_tail(std::string_view text);
// Each byte that belongs to no character replaced by U+FFFD.
std::string valid_utf8(std::string_view text);

// Generated: (first code point << 5 | category) of each run of one category, ascending.
std::span<const std::uint32_t> category_ranges();

}  // namespace tessera::tokenizer
