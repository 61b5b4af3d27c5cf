#include "tessera/app/plot/svg.h"

#include <gtest/gtest.h>

namespace tessera::plot {
namespace {

TEST(Svg, EscapesMarkupAndQuotes) {
  EXPECT_EQ(escape("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escape("line\n\ttab"), "line\n\ttab");
}

TEST(Svg, ReplacesWhatNoDocumentMayHold) {
  const std::string r = "\xef\xbf\xbd";
  EXPECT_EQ(escape(std::string("a\0b\x1b", 4)), "a" + r + "b" + r);
  EXPECT_EQ(escape("\xff\xc3"), r + r);                  // no first byte; a sequence cut short
  EXPECT_EQ(escape("\xc0\xaf"), r + r);                  // overlong '/'
  EXPECT_EQ(escape("\xe0\x80\xaf"), r + r + r);          // overlong in three bytes
  EXPECT_EQ(escape("\xed\xa0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(escape("\xf4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(escape("µs \xf0\x9f\x98\x80"), "µs \xf0\x9f\x98\x80");
}

TEST(Svg, FitsTextByItsMiddle) {
  const std::string name = "conv+add+max 1x64x56x56 by 64x64x3x3";
  EXPECT_EQ(fit_text(name, 1000), name);
  const std::string fitted = fit_text(name, 120);
  EXPECT_LE(text_width(fitted), 120);
  EXPECT_EQ(fitted.substr(0, 4), "conv");
  EXPECT_EQ(fitted.substr(fitted.size() - 3), "3x3");
  EXPECT_NE(fitted.find("…"), std::string::npos);
  EXPECT_EQ(fit_text("abc", 1), "…");
}

}  // namespace
}  // namespace tessera::plot
