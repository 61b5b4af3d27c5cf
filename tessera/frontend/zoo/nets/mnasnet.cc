// MNASNet 1.0: inverted residuals found by architecture search.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

struct Stage {
  std::int64_t channels, kernel, stride, expand;
  int repeats;
};

constexpr Stage kStages[] = {{24, 3, 2, 3, 3}, {40, 5, 2, 3, 3},  {80, 5, 2, 6, 3},
                             {96, 3, 1, 6, 2}, {192, 5, 2, 6, 4}, {320, 3, 1, 6, 1}};

Value inverted_residual(ModelBuilder& b, const Value& x, const std::string& name,
                        const Stage& stage, std::int64_t stride) {
  const std::int64_t hidden = x.dim(1) * stage.expand;
  const std::string layers = name + ".layers.";
  Value y = conv_bn(b, x, layers + "0", layers + "1", {hidden, square(1)}, Act::kRelu);
  y = conv_bn(b, y, layers + "3", layers + "4",
              {hidden, square(stage.kernel, stride, stage.kernel / 2), hidden}, Act::kRelu);
  y = conv_bn(b, y, layers + "6", layers + "7", {stage.channels, square(1)}, Act::kNone);
  return stride == 1 && x.dim(1) == stage.channels ? residual(b, y, x, Act::kNone) : y;
}

void mnasnet(ModelBuilder& b, const Settings& s) {
  Value x = image_input(b, s);
  x = conv_bn(b, x, "layers.0", "layers.1", {32, square(3, 2, 1)}, Act::kRelu);
  x = conv_bn(b, x, "layers.3", "layers.4", {32, square(3, 1, 1), 32}, Act::kRelu);
  x = conv_bn(b, x, "layers.6", "layers.7", {16, square(1)}, Act::kNone);
  int layer = 8;
  for (const Stage& stage : kStages) {
    for (int i = 0; i < stage.repeats; ++i) {
      x = inverted_residual(b, x, fmt::format("layers.{}.{}", layer, i), stage,
                            i == 0 ? stage.stride : 1);
    }
    ++layer;
  }
  x = conv_bn(b, x, "layers.14", "layers.15", {1280, square(1)}, Act::kRelu);
  b.scope("");
  x = reduce_mean(b, x, {2, 3}, false);
  b.output(linear(b, x, "classifier.1", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> mnasnet_entries() {
  return {
      with_alias(image_entry("mnasnet1_0", "MNASNet, depth multiplier 1.0", mnasnet), "mnasnet")};
}

}  // namespace tessera::zoo
