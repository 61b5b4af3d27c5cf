#include "tessera/frontend/tokenizer/pattern.h"

#include <gtest/gtest.h>

namespace tessera::tokenizer {
namespace {

// The match at the beginning of the text; -1: none.
int length(std::string_view pattern, std::u32string_view text) {
  const Result<Pattern> parsed = Pattern::parse(pattern);
  if (!parsed.ok()) ADD_FAILURE() << parsed.error().message;
  std::int64_t steps = 100000;
  const auto end = parsed.ok() ? parsed->match(text, 0, &steps) : std::nullopt;
  return end ? static_cast<int>(*end) : -1;
}

std::string reason(std::string_view pattern) {
  const Result<Pattern> parsed = Pattern::parse(pattern);
  return parsed.ok() ? "accepted" : parsed.error().message;
}

TEST(Pattern, MatchesWhatRegularExpressionsMatch) {
  EXPECT_EQ(length("abc", U"abcd"), 3);
  EXPECT_EQ(length("abc", U"abd"), -1);
  EXPECT_EQ(length("a|ab", U"ab"), 1) << "the first alternative that matches";
  EXPECT_EQ(length("a*ab", U"aaab"), 4);
  EXPECT_EQ(length("a*+ab", U"aaab"), -1) << "possessive: without going back";
  EXPECT_EQ(length("a{2,3}", U"aaaa"), 3);
  EXPECT_EQ(length("a{2}", U"a"), -1);
  EXPECT_EQ(length("a{2,}", U"aaaa"), 4);
  EXPECT_EQ(length("(?:ab|a)?b", U"ab"), 2) << "goes back into a group";
  EXPECT_EQ(length("(ab)?c", U"c"), 1);
  EXPECT_EQ(length(R"(\s+(?!\S))", U"   x"), 2);
  EXPECT_EQ(length(R"(\s+(?=\S))", U"   x"), 3);
  EXPECT_EQ(length(R"((?i:'s|k))", U"'\x17f"), 2) << "the long s is an s";
  EXPECT_EQ(length(R"((?i:'LL))", U"'lL"), 3);
  EXPECT_EQ(length(R"([^\r\n\p{L}]+)", U"12\n"), 2);
  EXPECT_EQ(length(R"([]a-c-]+)", U"]b-d"), 3);
  EXPECT_EQ(length(R"(\x41\u00e9\x{1F600})", U"Aé😀"), 3);
  EXPECT_EQ(length(R"([\S]+)", U"ab c"), 2);
  EXPECT_EQ(length(R"([^\s]+)", U"ab\u3000c"), 2);
  EXPECT_EQ(length(R"(\w\W\d\D)", U"é ٣x"), 4);
  EXPECT_EQ(length(R"(\P{Lu}.)", U"aB"), 2);
  EXPECT_EQ(length(".", U"\n"), -1);
}

TEST(Pattern, RefusesWhatItCannotDoAndSaysWhere) {
  for (const char* wrong : {"(",           ")",        "a)",    "[a",     "(?<=a)b",      "(?<n>a)",
                            "a*?",         "(ab)*",    "(ab)+", "(?=a)?", "a{3,2}",       "a{0}",
                            "a{x}",        "^a",       "a$",    "*",      "\\",           "\\b",
                            "\\p",         "\\p{Han}", "\\p{}", "\\pL",   "[b-a]",        "[a-\\s]",
                            "[[:alpha:]]", "\\x",      "\\xg0", "\\x{}",  "\\x{1234567}", "\\x{1",
                            "(?i:[a-z])"}) {
    EXPECT_NE(reason(wrong).find("the split pattern"), std::string::npos) << wrong;
  }
  EXPECT_NE(reason(std::string(5000, 'a')).find("5000 bytes"), std::string::npos);
  EXPECT_NE(reason(std::string(100, '(')).find("groups within too many groups"), std::string::npos);
  EXPECT_NE(reason("ab\\q").find("at byte 4"), std::string::npos) << reason("ab\\q");
}

TEST(Pattern, StopsWhenItsStepsAreUsedUp) {
  const Result<Pattern> pattern = Pattern::parse("a*a*a*a*a*a*b");
  ASSERT_TRUE(pattern.ok());
  std::int64_t steps = 10000;
  EXPECT_FALSE(pattern->match(std::u32string(200, 'a'), 0, &steps).has_value());
  EXPECT_LT(steps, 0);
  std::string empty;  // alternatives without a character take steps, too
  for (int i = 0; i < 60; ++i) empty += "(|)";
  const Result<Pattern> groups = Pattern::parse(empty + "b");
  ASSERT_TRUE(groups.ok());
  steps = 10000;
  EXPECT_FALSE(groups->match(U"a", 0, &steps).has_value());
  EXPECT_LT(steps, 0);
}

}  // namespace
}  // namespace tessera::tokenizer
