// absorb_shuffles: channels that are no longer moved.
#include <functional>

#include <gtest/gtest.h>

#include "passes_net.h"

namespace tessera::graph {
namespace {

ValueId shuffle(Net& net, ValueId x, std::int64_t groups) {
  Shape shape = net.shape(x), opened = shape;
  opened[1] /= groups;
  opened.insert(opened.begin() + 1, groups);
  Integers perm(opened.size());
  for (std::size_t d = 0; d < perm.size(); ++d) perm[d] = static_cast<std::int64_t>(d);
  std::swap(perm[1], perm[2]);
  return net.reshape(net.transpose(net.reshape(x, opened), perm), shape);
}

ValueId channels(Net& net, ValueId x, std::int64_t start, std::int64_t size,
                 std::int64_t step = 1) {
  Integers starts(net.shape(x).size(), 0), steps(starts.size(), 1), sizes = net.shape(x);
  starts[1] = start;
  steps[1] = step;
  sizes[1] = size;
  return net.op("slice", {x}, {{"starts", starts}, {"steps", steps}, {"sizes", sizes}});
}

ValueId join(Net& net, const std::vector<ValueId>& parts) {
  return net.op("concat", parts, {{"axis", std::int64_t{1}}});
}

// A unit of ShuffleNet-V2: one half of the channels stays, the other is computed.
ValueId unit(Net& net, ValueId x) {
  const std::int64_t half = net.shape(x)[1] / 2;
  ValueId v = net.relu(net.conv(channels(net, x, half, half), half, 1));
  v = net.relu(net.conv(net.conv(v, half, 3, 1, 1, half), half, 1));
  return shuffle(net, join(net, {channels(net, x, 0, half), v}), 2);
}

TEST(AbsorbShuffles, UnitsOfShuffleNet) {
  Net net;
  ValueId v = net.conv(net.input({2, 3, 5, 7}), 14, 1);
  for (int i = 0; i < 3; ++i) v = unit(net, v);
  // The next stage reads all channels: each by itself, and their sums.
  const ValueId down = net.conv(net.conv(v, 14, 3, 1, 2, 14), 5, 1);
  const Graph g = check_pass(net.finish({down, net.conv(v, 6, 3)}), absorb_shuffles);
  EXPECT_EQ(count(g, "transpose"), 0);
  EXPECT_EQ(count(g, "reshape"), 0);
  // Of each unit what it computes on, and what the next stage reads.
  EXPECT_EQ(count(g, "concat"), 3);
  PassOptions kept;
  kept.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kStored}});
  EXPECT_EQ(count(check_pass(g, absorb_shuffles, kept), "concat"), 3);
}

TEST(AbsorbShuffles, AsDecided) {
  Net net;
  const ValueId x = shuffle(net, net.conv(net.input({1, 3, 4, 4}), 6, 1), 2);
  const Graph graph = net.finish({net.conv(x, 4, 1)});
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{"fronts", plan::kStored}});
  EXPECT_EQ(count(check_pass(graph, absorb_shuffles, options), "transpose"), 1);
  ASSERT_EQ(options.decider->decided().size(), 1u);
  EXPECT_EQ(options.decider->decided()[0].point.name.substr(0, 14), "front shuffle ");
  EXPECT_EQ(count(check_pass(graph, absorb_shuffles), "transpose"), 0);
  EXPECT_EQ(count(check_pass(graph, absorb_shuffles), "gather"), 0);
}

TEST(AbsorbShuffles, ThroughWhatTreatsChannelsAlone) {
  Net net;
  ValueId v = shuffle(net, net.input({2, 12, 6, 5}), 3);
  v = net.op("mul", {net.op("add", {v, net.weights({12, 1, 1})}), net.weights({1, 1, 6, 5})});
  v = net.op(
      "pool", {v},
      {{"kind", std::string("max")}, {"kernel", Integers{2, 2}}, {"layout", std::string("nchw")}});
  v = net.conv(v, 12, 3, 0, 1, 12);
  v = channels(net, v, 10, 4, -3);
  v = net.reduce(v, "mean", {2, 3}, false);
  const Graph g = check_pass(net.finish({net.contract(v, net.weights({7, 4}), "mk", "nk", "mn")}),
                             absorb_shuffles);
  EXPECT_EQ(count(g, "transpose"), 0);
  // Those that are read lie side by side.
  EXPECT_EQ(count(g, "slice"), 1);
  EXPECT_EQ(count(g, "concat"), 0);
}

TEST(AbsorbShuffles, KeepsWhatWouldScatter) {
  // Each half reads every second channel.
  Net halves;
  const ValueId x = shuffle(halves, halves.input({1, 64, 3, 3}), 32);
  const Graph apart = check_pass(halves.finish({halves.conv(channels(halves, x, 0, 32), 4, 1),
                                                halves.conv(channels(halves, x, 32, 32), 4, 1)}),
                                 absorb_shuffles);
  EXPECT_EQ(count(apart, "transpose"), 1);
  EXPECT_EQ(count(apart, "slice"), 2);
  EXPECT_EQ(count(apart, "concat"), 0);
  // Every second of channels that two groups share lies side by side, of three it does not.
  const auto transposes = [](std::int64_t groups) {
    Net net;
    const ValueId v = shuffle(net, net.input({1, 48, 3, 3}), groups);
    return count(
        check_pass(net.finish({net.conv(channels(net, v, 0, 24, 2), 4, 1)}), absorb_shuffles),
        "transpose");
  };
  EXPECT_EQ(transposes(2), 0);
  EXPECT_EQ(transposes(3), 1);
  // All channels of what is shuffled need no order, also where that is every second of others.
  Net strided;
  const ValueId every = channels(strided, strided.input({1, 96, 3, 3}), 0, 48, 2);
  const Graph whole =
      check_pass(strided.finish({strided.conv(shuffle(strided, every, 3), 4, 1)}), absorb_shuffles);
  EXPECT_EQ(count(whole, "transpose"), 0);
  EXPECT_EQ(count(whole, "slice"), 1);
}

TEST(AbsorbShuffles, OnlyTheFirstScatters) {
  Net net;
  ValueId v = shuffle(net, net.input({1, 96, 3, 3}), 3);
  v = channels(net, v, 0, 48, 2);
  v = shuffle(net, join(net, {v, net.conv(v, 48, 1)}), 2);
  const Graph graph = net.finish({net.conv(channels(net, v, 0, 48), 4, 1)});
  const Graph g = check_pass(graph, absorb_shuffles);
  EXPECT_EQ(count(g, "transpose"), 1);
  EXPECT_EQ(count(g, "concat"), 1);
  // Two that undo each other; the second alone scatters.
  Net pair;
  v = shuffle(pair, shuffle(pair, pair.input({1, 64, 3, 3}), 2), 32);
  const Graph undone = pair.finish({pair.conv(channels(pair, v, 0, 32), 4, 1)});
  EXPECT_EQ(count(check_pass(undone, absorb_shuffles), "transpose"), 0);
  const std::string first = [&] {
    PassOptions options;
    options.decider = std::make_shared<plan::Decider>(plan::Decisions{});
    check_pass(undone, absorb_shuffles, options);
    EXPECT_EQ(options.decider->decided().size(), 2u);
    return options.decider->decided().back().point.name;
  }();
  PassOptions options;
  options.decider = std::make_shared<plan::Decider>(plan::Decisions{{first, plan::kStored}});
  EXPECT_EQ(count(check_pass(undone, absorb_shuffles, options), "transpose"), 2);
}

TEST(AbsorbShuffles, CopiesOfChannelsStayWhole) {
  Net net;
  const ValueId x = net.input({1, 32, 3, 3});
  const ValueId v = shuffle(net, join(net, {x, x}), 2);
  const Graph g = check_pass(net.finish({net.conv(v, 4, 1)}), absorb_shuffles);
  EXPECT_EQ(count(g, "transpose"), 0);
  EXPECT_EQ(count(g, "slice"), 0);
  EXPECT_EQ(count(g, "concat"), 1);
}

TEST(AbsorbShuffles, KeepsWhatReadersSee) {
  const auto kept = [](const std::function<std::vector<ValueId>(Net&, ValueId)>& read) {
    Net net;
    const ValueId x = shuffle(net, net.input({1, 6, 4, 5}), 2);
    return count(check_pass(net.finish(read(net, x)), absorb_shuffles), "transpose");
  };
  EXPECT_EQ(kept([](Net& net, ValueId x) { return std::vector{net.conv(x, 4, 1), x}; }), 1);
  EXPECT_EQ(kept([](Net& net, ValueId x) { return std::vector{net.conv(x, 4, 1, 0, 1, 2)}; }), 1);
  EXPECT_EQ(kept([](Net& net, ValueId x) { return std::vector{net.reduce(x, "max", {1})}; }), 1);
  // The sum of two orders has none.
  EXPECT_EQ(kept([](Net& net, ValueId x) {
              return std::vector{net.conv(net.op("add", {x, net.input({1, 6, 4, 5})}), 4, 1)};
            }),
            1);
  // A transpose of more than channels is no shuffle.
  Net net;
  const ValueId x = net.reshape(net.input({1, 4, 4, 5}), {1, 2, 2, 4, 5});
  const ValueId turned = net.reshape(net.transpose(x, {0, 3, 1, 2, 4}), {1, 4, 4, 5});
  EXPECT_EQ(count(check_pass(net.finish({net.conv(turned, 3, 1)}), absorb_shuffles), "transpose"),
            1);
}

TEST(AbsorbShuffles, RandomMovesOfChannels) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    Net net(seed);
    const auto draw = [&](std::int64_t n) { return net.rng().below(n); };
    std::vector<ValueId> values = {net.conv(net.input({1 + draw(2), 3, 4, 3}), 6, 1),
                                   net.input({1, 4, 4, 3})};
    if (net.shape(values[0])[0] != 1) values.pop_back();
    std::vector<ValueId> outputs;
    for (int i = 0; i < 14; ++i) {
      const ValueId x = values[net.rng().next() % values.size()];
      const std::int64_t c = net.shape(x)[1];
      switch (draw(8)) {
        case 0:
        case 1:
          if (c % 2 == 0) values.push_back(shuffle(net, x, 2));
          if (c % 3 == 0) values.push_back(shuffle(net, x, 3));
          break;
        case 2:
          values.push_back(draw(3) == 0 ? channels(net, x, 0, (c + 1) / 2, 2)
                                        : channels(net, x, c / 3, c - c / 3));
          break;
        case 3:
          if (c <= 24) values.push_back(join(net, {x, values.back()}));
          break;
        case 4:
          values.push_back(net.op("mul", {x, net.weights({c, 1, 1})}));
          break;
        case 5:
          if (c > 1) values.push_back(net.conv(x, c, 3, 1, 1, c));
          break;
        case 6:
          values.push_back(net.conv(x, 6, 1));
          break;
        default:
          outputs.push_back(draw(4) == 0 ? x : net.conv(x, 2, 1));
      }
    }
    outputs.push_back(net.conv(values.back(), 3, 1));
    SCOPED_TRACE(seed);
    const Graph graph = net.finish(outputs);
    check_pass(graph, absorb_shuffles);
  }
}

}  // namespace
}  // namespace tessera::graph
