#include "tessera/frontend/tokenizer/normal.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace tessera::tokenizer {
namespace {

TEST(Normal, LettersAndMarksBecomeOneCharacter) {
  EXPECT_EQ(composed(std::string_view("plain")), "plain");
  EXPECT_EQ(composed(std::u32string_view(U"e\u0301")), U"\u00e9");
  EXPECT_EQ(composed(std::u32string_view(U"\u1e0b\u0323")), U"\u1e0d\u0307") << "marks in order";
  EXPECT_EQ(composed(std::u32string_view(U"q\u0307\u0323")), U"q\u0323\u0307");
  // A mark of the same class stands between.
  EXPECT_EQ(composed(std::u32string_view(U"a\u0307\u0301")), U"\u0227\u0301");
  EXPECT_EQ(composed(std::u32string_view(U"\u0301e")), U"\u0301e") << "no letter before";
  EXPECT_EQ(composed(std::u32string_view(U"\u212b")), U"\u00c5") << "one stands for another";
  EXPECT_EQ(composed(std::u32string_view(U"\u0958")), U"\u0915\u093c") << "stays apart";
  EXPECT_EQ(composed(std::string_view("x\xff")), "x\xef\xbf\xbd");
}

TEST(Normal, SyllablesOfHangulAreComputed) {
  EXPECT_EQ(decomposed(U"\uac01"), U"\u1100\u1161\u11a8");
  EXPECT_EQ(decomposed(U"\uac00"), U"\u1100\u1161");
  for (const char32_t c : {U'\uac00', U'\uac01', U'\ud7a3'})
    EXPECT_EQ(composed(decomposed(std::u32string(1, c))), std::u32string(1, c));
  EXPECT_EQ(composed(std::u32string_view(U"\uac01\u11a8")), U"\uac01\u11a8") << "it is full";
}

// All of the table: what is composed again is itself, and both forms are stable.
TEST(Normal, EveryDecompositionComesBack) {
  for (const Decomposition& d : decompositions()) {
    const std::u32string apart = decomposed(std::u32string(1, d.code));
    EXPECT_EQ(decomposed(apart), apart) << static_cast<unsigned>(d.code);
    const std::u32string whole = composed(apart);
    EXPECT_EQ(composed(whole), whole) << static_cast<unsigned>(d.code);
    const bool back = d.second != 0 && is_composed_again(d.code);
    EXPECT_EQ(whole == std::u32string(1, d.code), back) << static_cast<unsigned>(d.code);
  }
  EXPECT_TRUE(std::ranges::is_sorted(decompositions(), {}, &Decomposition::code));
}

TEST(Normal, SmallLetters) {
  std::u32string out;
  for (const char32_t c : U"AzÄß\u0130\u0416\u1e9e中\U00010400") {
    if (c != 0) append_lower_case(&out, c);
  }
  EXPECT_EQ(out, U"azäßi\u0307\u0436ß中\U00010428");
}

TEST(Normal, BertCleansSeparatesAndStrips) {
  const BertNormalizer all{.clean = true, .apart = true, .strip_accents = true, .lower_case = true};
  EXPECT_EQ(normalized(all,
                       "A\tb\x01\xc3\x89"
                       "中文"),
            "a be 中  文 ");
  EXPECT_EQ(normalized({.lower_case = true}, "\xc3\x89\t"), "\xc3\xa9\t");
  EXPECT_EQ(normalized({.strip_accents = true}, "\xc3\x89"), "E");
  EXPECT_FALSE(BertNormalizer().any());
}

}  // namespace
}  // namespace tessera::tokenizer
