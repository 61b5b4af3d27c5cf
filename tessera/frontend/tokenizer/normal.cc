#include "tessera/frontend/tokenizer/normal.h"

#include <algorithm>
#include <map>
#include <utility>

#include "tessera/frontend/tokenizer/unicode.h"

namespace tessera::tokenizer {
namespace {

// Syllables of Hangul are computed: leading consonants, vowels, trailing consonants.
constexpr char32_t kSyllables = 0xac00, kLeading = 0x1100, kVowels = 0x1161, kTrailing = 0x11a7;
constexpr char32_t kLeadingCount = 19, kVowelCount = 21, kTrailingCount = 28;
constexpr char32_t kSyllableCount = kLeadingCount * kVowelCount * kTrailingCount;

constexpr char32_t kFirstMark = 0x300;  // nothing below combines
constexpr char32_t kFirstComposite = 0xc0;

std::int32_t value_of(std::span<const ShiftRun> runs, char32_t c) {
  const auto after = std::upper_bound(runs.begin(), runs.end(), c,
                                      [](char32_t v, const ShiftRun& r) { return v < r.first; });
  if (after == runs.begin()) return 0;
  const ShiftRun& run = *(after - 1);
  const bool within = c <= run.last && (c - run.first) % static_cast<char32_t>(run.step) == 0;
  return within ? run.value : 0;
}

std::int32_t combining_class(char32_t c) {
  return c < kFirstMark ? 0 : value_of(combining_classes(), c);
}

void append_decomposed(std::u32string* out, char32_t c) {
  if (c < kFirstComposite) {
    out->push_back(c);
    return;
  }
  if (c >= kSyllables && c < kSyllables + kSyllableCount) {
    const char32_t syllable = c - kSyllables, trailing = syllable % kTrailingCount;
    out->push_back(kLeading + syllable / (kVowelCount * kTrailingCount));
    out->push_back(kVowels + syllable / kTrailingCount % kVowelCount);
    if (trailing != 0) out->push_back(kTrailing + trailing);
    return;
  }
  const std::span<const Decomposition> all = decompositions();
  const auto at = std::lower_bound(all.begin(), all.end(), c,
                                   [](const Decomposition& d, char32_t v) { return d.code < v; });
  if (at == all.end() || at->code != c) {
    out->push_back(c);
    return;
  }
  append_decomposed(out, at->first);  // the table is not circular
  if (at->second != 0) append_decomposed(out, at->second);
}

// What two characters become; 0: nothing.
char32_t composite(char32_t first, char32_t second) {
  if (first >= kLeading && first < kLeading + kLeadingCount && second >= kVowels &&
      second < kVowels + kVowelCount) {
    return kSyllables + ((first - kLeading) * kVowelCount + (second - kVowels)) * kTrailingCount;
  }
  const bool open = first >= kSyllables && first < kSyllables + kSyllableCount &&
                    (first - kSyllables) % kTrailingCount == 0;
  if (open && second > kTrailing && second < kTrailing + kTrailingCount)
    return first + (second - kTrailing);
  static const std::map<std::pair<char32_t, char32_t>, char32_t> composites = [] {
    std::map<std::pair<char32_t, char32_t>, char32_t> out;
    for (const Decomposition& d : decompositions()) {
      if (d.second != 0 && is_composed_again(d.code)) out[{d.first, d.second}] = d.code;
    }
    return out;
  }();
  const auto at = composites.find({first, second});
  return at == composites.end() ? 0 : at->second;
}

// Marks between two characters of class 0 by their class; equal ones stay in order.
void order_marks(std::u32string* text) {
  for (std::size_t at = 0; at < text->size();) {
    if (combining_class((*text)[at]) == 0) {
      ++at;
      continue;
    }
    std::size_t end = at;
    while (end < text->size() && combining_class((*text)[end]) != 0) ++end;
    std::stable_sort(text->begin() + static_cast<std::ptrdiff_t>(at),
                     text->begin() + static_cast<std::ptrdiff_t>(end), [](char32_t a, char32_t b) {
                       return combining_class(a) < combining_class(b);
                     });
    at = end;
  }
}

bool is_chinese(char32_t c) {
  constexpr std::pair<char32_t, char32_t> kBlocks[] = {
      {0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
      {0x2b740, 0x2b81f}, {0x2b920, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
  return std::ranges::any_of(kBlocks, [&](const auto& b) { return c >= b.first && c <= b.second; });
}

void append_cleaned(std::u32string* out, char32_t c, const BertNormalizer& how) {
  const bool space = is_space(c);
  const Categories controls = categories_named("C") & ~only(Category::kCn);
  const bool other = (only(category_of(c)) & controls) != 0;
  if (how.clean && (c == 0xfffd || (other && !(c == '\t' || c == '\n' || c == '\r')))) return;
  if (how.clean && space) c = ' ';
  const bool apart = how.apart && is_chinese(c);
  if (apart) out->push_back(' ');
  out->push_back(c);
  if (apart) out->push_back(' ');
}

}  // namespace

std::u32string code_points(std::string_view text) {
  std::u32string out;
  while (!text.empty()) {
    const CodePoint c = first_code_point(text);
    out.push_back(c.value);
    text.remove_prefix(c.bytes);
  }
  return out;
}

std::string to_utf8(std::u32string_view text) {
  std::string out;
  for (const char32_t c : text) append_utf8(&out, c);
  return out;
}

std::u32string decomposed(std::u32string_view text) {
  std::u32string out;
  for (const char32_t c : text) append_decomposed(&out, c);
  order_marks(&out);
  return out;
}

std::u32string composed(std::u32string_view text) {
  std::u32string out;
  std::size_t base = 0;  // where the last character of class 0 stands in `out`
  bool has_base = false;
  std::int32_t before = 0;  // the class of what stands between, the highest so far
  for (const char32_t c : decomposed(text)) {
    const std::int32_t own = combining_class(c);
    const bool adjacent = has_base && base + 1 == out.size();
    if (has_base && (adjacent || before < own)) {
      if (const char32_t both = composite(out[base], c); both != 0) {
        out[base] = both;
        continue;
      }
    }
    if (own == 0) {
      base = out.size();
      has_base = true;
    }
    before = own;
    out.push_back(c);
  }
  return out;
}

std::string composed(std::string_view text) {
  const bool plain = std::ranges::all_of(text, [](char c) { return c >= 0; });
  return plain ? std::string(text) : to_utf8(composed(code_points(text)));
}

void append_lower_case(std::u32string* out, char32_t c) {
  if (c == 0x130) {
    out->append(U"i\u0307");
    return;
  }
  out->push_back(c + static_cast<char32_t>(value_of(lower_case_shifts(), c)));
}

std::string normalized(const BertNormalizer& how, std::string_view text) {
  std::u32string now;
  for (const char32_t c : code_points(text)) append_cleaned(&now, c, how);
  if (how.strip_accents) {
    now = decomposed(now);
    std::erase_if(now, [](char32_t c) { return category_of(c) == Category::kMn; });
  }
  if (how.lower_case) {
    std::u32string small;
    for (const char32_t c : now) append_lower_case(&small, c);
    now = std::move(small);
  }
  return to_utf8(now);
}

}  // namespace tessera::tokenizer
