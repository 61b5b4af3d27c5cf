// Text as vocabularies want it: Unicode's composed form, small letters, no accents.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::tokenizer {

// Characters taken apart into letters and marks in canonical order (Unicode's form NFD), and put
// together again (NFC). What is no valid UTF-8 is U+FFFD.
std::u32string code_points(std::string_view text);
std::string to_utf8(std::u32string_view text);
std::u32string decomposed(std::u32string_view text);
std::u32string composed(std::u32string_view text);
std::string composed(std::string_view text);

// As Unicode writes it without regard to neighbours: one character, or two for U+0130.
void append_lower_case(std::u32string* out, char32_t c);

// What BERT's models do to a text before it is split into words.
struct BertNormalizer {
  bool clean = false;  // no control characters, all spaces are U+0020
  bool apart = false;  // spaces around Chinese characters
  bool strip_accents = false;
  bool lower_case = false;

  bool any() const { return clean || apart || strip_accents || lower_case; }
};
std::string normalized(const BertNormalizer& how, std::string_view text);

// Generated, ascending.
struct Decomposition {
  char32_t code, first, second;  // `second` 0: one character stands for another
};
struct ShiftRun {  // of every `step`-th code point from first to last
  char32_t first, last;
  std::int32_t step, value;
};
std::span<const Decomposition> decompositions();
std::span<const ShiftRun> lower_case_shifts();
std::span<const ShiftRun> combining_classes();
bool is_composed_again(char32_t code);  // of those that decompose into two

}  // namespace tessera::tokenizer
