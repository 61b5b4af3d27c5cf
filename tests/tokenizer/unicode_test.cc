#include "tessera/frontend/tokenizer/unicode.h"

#include <gtest/gtest.h>

namespace tessera::tokenizer {
namespace {

TEST(Unicode, Categories) {
  const auto is = [](char32_t c, std::string_view name) {
    return (only(category_of(c)) & categories_named(name)) != 0;
  };
  EXPECT_TRUE(is('A', "Lu") && is('a', "Ll") && is(U'中', "Lo") && is(U'ǅ', "Lt"));
  EXPECT_TRUE(is('7', "Nd") && is(U'½', "No") && is(U'Ⅷ', "Nl"));
  EXPECT_TRUE(is(U'\u0301', "M") && is(U'😀', "So") && is('$', "Sc") && is('_', "Pc"));
  EXPECT_TRUE(is(0, "Cc") && is(0xd800, "Cs") && is(0x10ffff, "Cn") && is(0xe000, "Co"));
  EXPECT_EQ(categories_named("X"), 0u);
  EXPECT_EQ(categories_named(""), 0u);
  EXPECT_EQ(std::popcount(categories_named("L")), 5);
}

TEST(Unicode, Spaces) {
  for (const char32_t c :
       {U' ', U'\t', U'\n', U'\r', U'\v', U'\f', U'\x85', U'\xa0', U'\u2003', U'\u2028', U'\u3000'})
    EXPECT_TRUE(is_space(c)) << static_cast<int>(c);
  for (const char32_t c : {U'a', U'\0', U'\x84', U'\u200b', U'\ufeff', U'\u180e'})
    EXPECT_FALSE(is_space(c)) << static_cast<int>(c);
}

TEST(Unicode, AllCodePointsSurviveUtf8) {
  for (char32_t c = 0; c <= 0x10ffff; ++c) {
    if (c >= 0xd800 && c <= 0xdfff) continue;
    std::string text;
    append_utf8(&text, c);
    const CodePoint back = first_code_point(text);
    ASSERT_EQ(back.value, c);
    ASSERT_EQ(back.bytes, text.size());
    for (std::size_t n = 1; n < text.size(); ++n) {
      ASSERT_EQ(incomplete_tail(text.substr(0, n)), n);
      ASSERT_EQ(first_code_point(text.substr(0, n)).bytes, 1u);
    }
    ASSERT_EQ(incomplete_tail(text), 0u);
  }
}

TEST(Unicode, InvalidBytesAreReplaced) {
  EXPECT_EQ(valid_utf8("a\xff"
                       "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(valid_utf8("\xc0\x80"), "\xef\xbf\xbd\xef\xbf\xbd");  // overlong
  EXPECT_EQ(valid_utf8("\xed\xa0\x80").size(), 9u);               // a surrogate
  EXPECT_EQ(valid_utf8("\xf4\x90\x80\x80").size(), 12u);          // above U+10FFFF
  EXPECT_EQ(incomplete_tail("\x80\x80"), 0u);
  EXPECT_EQ(incomplete_tail("\xed\xa0"), 0u) << "nothing can complete it";
  EXPECT_EQ(incomplete_tail("\xf0\x9f\x98"), 3u);
}

}  // namespace
}  // namespace tessera::tokenizer
