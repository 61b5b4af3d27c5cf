#include "tessera/frontend/tokenizer/unicode.h"

#include <algorithm>

namespace tessera::tokenizer {
namespace {

constexpr std::string_view kCategoryNames =
    "LuLlLtLmLoMnMcMeNdNlNoPcPdPsPePiPfPoSmScSkSoZsZlZpCcCfCsCoCn";
constexpr char32_t kReplacement = 0xfffd;

// Of the first byte of a character: its bytes, or 0.
std::size_t utf8_length(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return 2;
  if (first >= 0xe0 && first <= 0xef) return 3;
  return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

// Whether `second` may follow `first`: no overlong form, no surrogate, nothing above U+10FFFF.
bool may_follow(unsigned char first, unsigned char second) {
  if ((second & 0xc0) != 0x80) return false;
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second <= 0x9f;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second <= 0x8f;
    default:
      return true;
  }
}

// The longest start of a valid character that `text` begins with, at most the whole one.
std::size_t valid_prefix(std::string_view text, std::size_t length) {
  std::size_t n = 1;
  while (n < length && n < text.size()) {
    const auto byte = static_cast<unsigned char>(text[n]);
    const bool fits =
        n == 1 ? may_follow(static_cast<unsigned char>(text[0]), byte) : (byte & 0xc0) == 0x80;
    if (!fits) break;
    ++n;
  }
  return n;
}

}  // namespace

Category category_of(char32_t c) {
  const std::span<const std::uint32_t> ranges = category_ranges();
  const auto key = static_cast<std::uint32_t>(c) << 5 | 31;
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), key);
  return static_cast<Category>(*(after - 1) & 31);
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  return c >= 0xa0 && ((only(category_of(c)) & categories_named("Z")) != 0);
}

Categories categories_named(std::string_view name) {
  Categories out = 0;
  for (int i = 0; i < kCategoryCount; ++i) {
    const std::string_view own = kCategoryNames.substr(static_cast<std::size_t>(2 * i), 2);
    if (!name.empty() && own.starts_with(name)) out |= 1u << i;
  }
  return out;
}

CodePoint first_code_point(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t length = utf8_length(first);
  if (length == 1) return {first, 1};
  if (length == 0 || valid_prefix(text, length) != length) return {kReplacement, 1};
  char32_t value = first & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i)
    value = value << 6 | (static_cast<unsigned char>(text[i]) & 0x3fu);
  return {value, length};
}

void append_utf8(std::string* out, char32_t c) {
  const auto put = [&](char32_t byte) { out->push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

std::size_t incomplete_tail(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(3, text.size()); ++n) {
    const std::string_view tail = text.substr(text.size() - n);
    const std::size_t length = utf8_length(static_cast<unsigned char>(tail[0]));
    if (length == 0) continue;  // in the middle of a character
    return length > n && valid_prefix(tail, length) == n ? n : 0;
  }
  return 0;
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    append_utf8(&out, c.value);
    text.remove_prefix(c.bytes);
  }
  return out;
}

}  // namespace tessera::tokenizer
