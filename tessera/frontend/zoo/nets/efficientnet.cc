// EfficientNet B0 to B4: inverted residuals with squeeze-and-excitation and SiLU, scaled together
// in width and depth.
#include <algorithm>
#include <cmath>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

struct Stage {
  std::int64_t expand, kernel, stride, in, out;
  int repeats;
};

constexpr Stage kStages[] = {{1, 3, 1, 32, 16, 1},  {6, 3, 2, 16, 24, 2},  {6, 5, 2, 24, 40, 2},
                             {6, 3, 2, 40, 80, 3},  {6, 5, 1, 80, 112, 3}, {6, 5, 2, 112, 192, 4},
                             {6, 3, 1, 192, 320, 1}};

Value block(ModelBuilder& b, const Value& x, const std::string& name, const Stage& stage,
            std::int64_t out, std::int64_t stride) {
  const std::int64_t hidden = x.dim(1) * stage.expand;
  Value y = x;
  int layer = 0;
  const auto next = [&] { return fmt::format("{}.block.{}", name, layer++); };
  if (stage.expand != 1) {
    const std::string expand = next();
    y = conv_bn(b, y, expand + ".0", expand + ".1", {hidden, square(1)}, Act::kSilu);
  }
  const std::string depthwise = next();
  y = conv_bn(b, y, depthwise + ".0", depthwise + ".1",
              {hidden, square(stage.kernel, stride, stage.kernel / 2), hidden}, Act::kSilu);
  y = squeeze_excite(b, y, next(), std::max<std::int64_t>(1, x.dim(1) / 4), Act::kSilu, sigmoid);
  const std::string project = next();
  y = conv_bn(b, y, project + ".0", project + ".1", {out, square(1)}, Act::kNone);
  return stride == 1 && x.dim(1) == out ? residual(b, y, x, Act::kNone) : y;
}

void efficientnet(ModelBuilder& b, const Settings& s, double width, double depth) {
  const auto channels = [width](std::int64_t c) {
    return make_divisible(static_cast<double>(c) * width, 8);
  };
  Value x = image_input(b, s);
  x = conv_bn(b, x, "features.0.0", "features.0.1", {channels(32), square(3, 2, 1)}, Act::kSilu);
  int layer = 1;
  for (const Stage& stage : kStages) {
    const int repeats = static_cast<int>(std::ceil(stage.repeats * depth));
    for (int i = 0; i < repeats; ++i) {
      x = block(b, x, fmt::format("features.{}.{}", layer, i), stage, channels(stage.out),
                i == 0 ? stage.stride : 1);
    }
    ++layer;
  }
  x = conv_bn(b, x, "features.8.0", "features.8.1", {4 * x.dim(1), square(1)}, Act::kSilu);
  b.output(classify(b, x, "classifier.1", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> efficientnet_entries() {
  return {
      image_entry("efficientnet_b0", "EfficientNet-B0",
                  [](ModelBuilder& b, const Settings& s) { efficientnet(b, s, 1.0, 1.0); }),
      image_entry(
          "efficientnet_b1", "EfficientNet-B1",
          [](ModelBuilder& b, const Settings& s) { efficientnet(b, s, 1.0, 1.1); }, 240),
      image_entry(
          "efficientnet_b2", "EfficientNet-B2",
          [](ModelBuilder& b, const Settings& s) { efficientnet(b, s, 1.1, 1.2); }, 288),
      image_entry(
          "efficientnet_b3", "EfficientNet-B3",
          [](ModelBuilder& b, const Settings& s) { efficientnet(b, s, 1.2, 1.4); }, 300),
      image_entry(
          "efficientnet_b4", "EfficientNet-B4",
          [](ModelBuilder& b, const Settings& s) { efficientnet(b, s, 1.4, 1.8); }, 380),
  };
}

}  // namespace tessera::zoo
