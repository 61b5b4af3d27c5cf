#include "tessera/app/generate/stop_strings.h"

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

TEST(StopStrings, HoldsBackWhatMayBecomeOne) {
  StopStrings stops({"END", ""});
  EXPECT_EQ(stops.push("aE"), "a");
  EXPECT_EQ(stops.push("N"), "");
  EXPECT_EQ(stops.push("x"), "ENx");
  EXPECT_EQ(stops.push("yEN"), "y");
  EXPECT_FALSE(stops.stopped());
  EXPECT_EQ(stops.push("D and more"), "");
  EXPECT_TRUE(stops.stopped());
  EXPECT_EQ(stops.push("nothing comes"), "");
  EXPECT_EQ(stops.finish(), "");
}

TEST(StopStrings, GivesWhatWasHeldBackAtTheEnd) {
  StopStrings stops({"\n\n"});
  EXPECT_EQ(stops.push("a\n"), "a");
  EXPECT_EQ(stops.finish(), "\n");
}

TEST(StopStrings, PiecesMakeNoDifference) {
  Rng rng(1);
  for (int run = 0; run < 2000; ++run) {
    const auto word = [&](std::int64_t most) {
      std::string out;
      for (std::int64_t n = rng.below(most); n >= 0; --n) out += rng.chance(.5) ? 'a' : 'b';
      return out;
    };
    const std::vector<std::string> wanted = {word(4), word(6)};
    const std::string text = word(30);
    std::size_t first = std::string::npos;  // where the one begins that is complete first
    for (std::size_t n = 1; n <= text.size() && first == std::string::npos; ++n)
      for (const std::string& stop : wanted) first = std::min(first, text.substr(0, n).find(stop));
    StopStrings stops(wanted);
    std::string got;
    for (std::size_t at = 0; at < text.size();) {
      const auto n = static_cast<std::size_t>(rng.between(1, 4));
      got += stops.push(std::string_view(text).substr(at, n));
      at += n;
    }
    EXPECT_EQ(stops.stopped(), first != std::string::npos);
    EXPECT_EQ(got + stops.finish(), text.substr(0, first));
  }
}

}  // namespace
}  // namespace tessera::app
