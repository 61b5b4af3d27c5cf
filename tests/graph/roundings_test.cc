#include "tessera/frontend/graph/roundings.h"

#include <gtest/gtest.h>

#include "tests/graph/passes_net.h"

namespace tessera::graph {
namespace {

ValueId to(Net& net, ValueId x, const char* dtype) {
  return net.op("cast", {x}, {{"to", std::string(dtype)}});
}

// A u8 image through two convolutions, once more beside it through f16 or u8.
std::vector<Roundings> of_network(const char* detour) {
  Net net;
  const ValueId image = to(net, net.input({1, 3, 8, 8}, DType::kU8), "f32");
  const ValueId x = net.relu(net.conv(image, 4, 3));
  const ValueId side = to(net, to(net, x, detour), "f32");
  return roundings(net.finish({net.conv(x, 4, 3), side, image}));
}

TEST(GraphRoundings, FollowThePathToEachOutput) {
  for (const char* detour : {"f16", "u8"}) {
    const std::vector<Roundings> r = of_network(detour);
    ASSERT_EQ(r.size(), 3u);
    const DType t = dtype_from_text(detour).value();
    EXPECT_EQ(r[0].count(t), 0) << detour;
    EXPECT_EQ(r[0].count(DType::kF32), 3 * 9 + 4 * 9);
    EXPECT_EQ(r[1].count(t), 1) << detour;
    EXPECT_EQ(r[1].count(DType::kF32), 3 * 9);
    EXPECT_FALSE(r[2].any()) << "an image of bytes is exact in f32";
    EXPECT_LE(tolerance(r[0]), 1e-4);
    EXPECT_LT(tolerance(r[1]), 0.02);
  }
}

TEST(GraphRoundings, ConstantsAreWhatTheyAre) {
  Net net;
  const ValueId w = to(net, net.weights({4, 4}, DType::kF16), "f32");
  const ValueId scaled = net.op("mul", {w, net.scalar(0.1)});
  const ValueId x = net.input({4, 4});
  const std::vector<Roundings> r =
      roundings(net.finish({net.contract(x, scaled, "mk", "kn", "mn"), net.op("neg", {x})}));
  EXPECT_EQ(r[0].count(DType::kF32), 4);
  EXPECT_EQ(r[0].count(DType::kF16), 0);
}

TEST(GraphRoundings, TermsOfASigmoidAreOfItsRange) {
  Net net;
  const ValueId x = net.input({1, 4});
  const ValueId y = net.op("sigmoid", {net.relu(x)});
  const ValueId moved = net.op("transpose", {y}, {{"perm", std::vector<std::int64_t>{1, 0}}});
  const ValueId twice = net.op("add", {y, y});
  EXPECT_EQ(term_magnitudes(net.finish({x, y, moved, twice})), (std::vector<double>{0, 1, 1, 0}));
}

}  // namespace
}  // namespace tessera::graph
