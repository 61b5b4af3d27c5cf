// MobileNet-V2: inverted residuals with depthwise convolutions and ReLU6.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

struct Stage {
  std::int64_t expand, channels;
  int repeats;
  std::int64_t stride;
};

constexpr Stage kStages[] = {{1, 16, 1, 1}, {6, 24, 2, 2},  {6, 32, 3, 2}, {6, 64, 4, 2},
                             {6, 96, 3, 1}, {6, 160, 3, 2}, {6, 320, 1, 1}};

Value inverted_residual(ModelBuilder& b, const Value& x, const std::string& name,
                        std::int64_t expand, std::int64_t channels, std::int64_t stride) {
  const std::int64_t hidden = x.dim(1) * expand;
  Value y = x;
  int layer = 0;
  if (expand != 1) {
    y = conv_bn(b, y, name + ".conv.0.0", name + ".conv.0.1", {hidden, square(1)}, Act::kRelu6);
    ++layer;
  }
  const std::string depthwise = fmt::format("{}.conv.{}", name, layer);
  y = conv_bn(b, y, depthwise + ".0", depthwise + ".1", {hidden, square(3, stride, 1), hidden},
              Act::kRelu6);
  y = conv_bn(b, y, fmt::format("{}.conv.{}", name, layer + 1),
              fmt::format("{}.conv.{}", name, layer + 2), {channels, square(1)}, Act::kNone);
  return stride == 1 && x.dim(1) == channels ? residual(b, x, y, Act::kNone) : y;
}

void mobilenet_v2(ModelBuilder& b, const Settings& s) {
  Value x = quantized_input(b, s, image_input(b, s));
  x = conv_bn(b, x, "features.0.0", "features.0.1", {32, square(3, 2, 1)}, Act::kRelu6);
  int layer = 1;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.repeats; ++i, ++layer) {
      x = inverted_residual(b, x, fmt::format("features.{}", layer), stage.expand, stage.channels,
                            i == 0 ? stage.stride : 1);
    }
  }
  x = conv_bn(b, x, "features.18.0", "features.18.1", {1280, square(1)}, Act::kRelu6);
  b.output(classify(b, x, "classifier.1", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> mobilenet_v2_entries() {
  return {with_quant(image_entry("mobilenet_v2", "MobileNet-V2, width 1.0", mobilenet_v2))};
}

}  // namespace tessera::zoo
