// The list of passes as a whole: options, reports, and equal results on random networks.
#include <gtest/gtest.h>

#include "passes_net.h"
#include "tests/testing/testing.h"

namespace tessera::graph {
namespace {

Graph small_network() {
  Net net;
  ValueId v = net.conv(net.input({1, 3, 6, 6}), 4, 3, 1);
  v = net.op("add", {net.op("mul", {v, net.weights({4, 1, 1})}), net.weights({4, 1, 1})});
  v = net.conv(net.op("mul", {v, net.op("sigmoid", {v})}), 4, 1);
  v = net.reshape(net.reduce(v, "mean", {2, 3}), {1, 4});
  return net.finish(
      {net.contract(v, net.transpose(net.weights({5, 4}), {1, 0}), "mk", "kn", "mn")});
}

TEST(Optimize, GoldenNetwork) {
  Graph g = small_network();
  PassOptions options;
  options.print_after = {"fold_scales", "remove_dead"};
  const auto report = optimize(g, options);
  ASSERT_TRUE(report.ok()) << report.error().message;
  testing::expect_golden("graph/passes.txt", to_text(small_network()) + report->printed);
  expect_same(small_network(), g, "optimize");
}

TEST(Optimize, SkipStopAndTimes) {
  Graph g = small_network();
  PassOptions options;
  options.skip = {"simplify"};
  options.stop_after = "fold_scales";
  const auto report = optimize(g, options);
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->times.size(), 6u);
  EXPECT_EQ(report->times[3].name, "merge_common");
  EXPECT_EQ(report->times[5].name, "fold_scales");
  EXPECT_TRUE(report->times[5].changed);
  EXPECT_TRUE(report->printed.empty());
}

TEST(Optimize, UnknownPassNamesAreRefused) {
  for (const int field : {0, 1, 2}) {
    Graph g = small_network();
    PassOptions options;
    if (field == 0) options.skip = {"fold_scale"};
    if (field == 1) options.stop_after = "fold_scale";
    if (field == 2) options.print_after = {"fold_scale"};
    const auto report = optimize(g, options);
    ASSERT_FALSE(report.ok());
    EXPECT_EQ(report.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(report.error().message.find("fold_scales"), std::string::npos);
  }
}

TEST(Optimize, EmptyGraphAndOutputsThatAreInputs) {
  Net net;
  const ValueId x = net.input({0, 3, 4, 4});
  Graph g = net.finish({x, net.weights({2}), net.conv(x, 2, 3, 1)});
  const Graph before = g;
  ASSERT_TRUE(optimize(g, {}).ok());
  EXPECT_EQ(g.outputs.size(), 3u);
  expect_same(before, g, "optimize");
}

TEST(Optimize, IsStable) {
  Graph g = small_network();
  ASSERT_TRUE(optimize(g, {}).ok());
  const std::string once = to_text(g);
  ASSERT_TRUE(optimize(g, {}).ok());
  EXPECT_EQ(to_text(g), once);
}

struct NamedPass {
  const char* name;
  PassFunction run;
};

class RandomNets : public ::testing::TestWithParam<NamedPass> {};

TEST_P(RandomNets, GiveTheSameValues) {
  PassOptions options;
  options.rules.winograd_min_channels = 1;
  options.rules.winograd_min_size = 2;
  options.rules.merge_contractions = true;
  options.rules.slices_in_place = true;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    Graph g = random_net(seed);
    // Algorithms exist for one layout.
    if (GetParam().run == select_algorithms) g = check_pass(g, channels_last, options);
    check_pass(g, GetParam().run, options);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Passes, RandomNets,
    ::testing::Values(NamedPass{"merge_common", merge_common}, NamedPass{"simplify", simplify},
                      NamedPass{"match_norms", match_norms}, NamedPass{"fold_scales", fold_scales},
                      NamedPass{"absorb_transposes", absorb_transposes},
                      NamedPass{"move_transposes", move_transposes},
                      NamedPass{"open_image_norms", open_image_norms},
                      NamedPass{"channels_last", channels_last},
                      NamedPass{"select_algorithms", select_algorithms},
                      NamedPass{"merge_contractions", merge_contractions},
                      NamedPass{"absorb_slices", absorb_slices},
                      NamedPass{"absorb_shuffles", absorb_shuffles},
                      NamedPass{"fold_gates", fold_gates}, NamedPass{"read_images", read_images}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Optimize, RandomNetsGiveTheSameValues) {
  PassOptions options;
  options.rules.winograd_min_channels = 1;
  options.rules.winograd_min_size = 2;
  options.rules.merge_contractions = true;
  options.rules.slices_in_place = true;
  for (std::uint64_t seed = 100; seed < 220; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Graph before = random_net(seed);
    Graph g = before;
    const auto report = optimize(g, options);
    ASSERT_TRUE(report.ok()) << report.error().message;
    expect_same(before, g, "optimize");
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tessera::graph
