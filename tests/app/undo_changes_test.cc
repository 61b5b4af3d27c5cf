// Changes of a model that are undone one by one where all of them together prove nothing.
#include "tessera/app/tune/undo_changes.h"

#include <gtest/gtest.h>

namespace tessera::app {
namespace {

constexpr double kLeast = 0.005;
using Changes = std::vector<std::size_t>;

// A model whose changes gain so much each; timings vary by `noise`, and there is time for `room`.
struct Timer {
  std::vector<double> gains;
  double noise = 0.004;
  int room = 1000;
  std::vector<Changes> timed = {};

  Result<std::vector<std::size_t>> kept() {
    Changes all;
    for (std::size_t i = 0; i < gains.size(); ++i) all.push_back(i);
    return surely_faster(all, kLeast, [this](const Changes& c) -> Result<std::optional<Gain>> {
      if (static_cast<int>(timed.size()) == room) return std::optional<Gain>();
      timed.push_back(c);
      Gain out{.gain = 0, .noise = noise};
      for (const std::size_t i : c) out.gain += gains[i];
      out.fast = out.gain > 0;
      return std::optional(out);
    });
  }
};

TEST(UndoChanges, UndoesTheOneThatSlowsTheModelDown) {
  Timer timer{{0.01, 0.01, -0.15, 0.01, 0.01, 0.01, 0.01, 0.01}};
  EXPECT_EQ(timer.kept().value(), (Changes{0, 1, 3, 4, 5, 6, 7}));
  EXPECT_EQ(timer.timed.front(), (Changes{0, 1, 2, 3})) << "what promises most comes first";
  EXPECT_EQ(timer.timed.size(), 6u);
}

TEST(UndoChanges, UndoesWhatIsWorseThanWithoutThoughTheWholeIsFaster) {
  Timer timer{{0.05, 0.03, -0.02, -0.07}};
  EXPECT_EQ(timer.kept().value(), (Changes{0, 1}));
}

TEST(UndoChanges, KeepsNothingThatNoiseExplains) {
  Timer timer{std::vector<double>(64, 0.001), 0.1};
  EXPECT_TRUE(timer.kept().value().empty());
  EXPECT_LE(timer.timed.size(), 24u) << "without a budget it ends, too";
}

TEST(UndoChanges, KeepsWhatWasSureWhenTimeIsUp) {
  Timer timer{{0.02, 0.02, 0.02, -0.2}, 0.004, 1};
  EXPECT_EQ(timer.kept().value(), (Changes{0, 1}));
}

TEST(UndoChanges, TimesASingleChangeNoMore) {
  Timer timer{{0.02}};
  EXPECT_TRUE(timer.kept().value().empty());
  EXPECT_TRUE(timer.timed.empty());
}

TEST(UndoChanges, PassesErrorsOn) {
  const auto kept = surely_faster({0, 1}, kLeast, [](const Changes&) {
    return Result<std::optional<Gain>>(make_error(ErrorCode::kRunFailed, "no device"));
  });
  ASSERT_FALSE(kept.ok());
  EXPECT_EQ(kept.error().code, ErrorCode::kRunFailed);
}

}  // namespace
}  // namespace tessera::app
