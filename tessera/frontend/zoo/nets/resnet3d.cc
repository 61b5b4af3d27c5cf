// 3-D ResNet-18 of torchvision (r3d_18): video in, convolutions over time, height and width.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

Window cube(std::int64_t kernel, std::int64_t stride, std::int64_t pad) {
  return {{kernel, kernel, kernel}, {stride, stride, stride}, {pad, pad, pad}, {1, 1, 1}};
}

Value block(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t planes,
            std::int64_t stride) {
  Value y =
      conv_bn(b, x, name + ".conv1.0", name + ".conv1.1", {planes, cube(3, stride, 1)}, Act::kRelu);
  y = conv_bn(b, y, name + ".conv2.0", name + ".conv2.1", {planes, cube(3, 1, 1)}, Act::kNone);
  if (stride == 1 && x.dim(1) == planes) return residual(b, y, x, Act::kRelu);
  const Value shortcut = conv_bn(b, x, name + ".downsample.0", name + ".downsample.1",
                                 {planes, cube(1, stride, 0)}, Act::kNone);
  return residual(b, y, shortcut, Act::kRelu);
}

void resnet3d_18(ModelBuilder& b, const Settings& s) {
  Value x =
      b.input("input", b.dtype(), {s.at("batch"), 3, s.at("frames"), s.at("size"), s.at("size")});
  const Window stem = {{3, 7, 7}, {1, 2, 2}, {1, 3, 3}, {1, 1, 1}};
  x = conv_bn(b, x, "stem.0", "stem.1", {64, stem}, Act::kRelu);
  std::int64_t planes = 64;
  for (int stage = 1; stage <= 4; ++stage, planes *= 2) {
    for (int i = 0; i < 2; ++i) {
      const std::int64_t stride = stage > 1 && i == 0 ? 2 : 1;
      x = block(b, x, fmt::format("layer{}.{}", stage, i), planes, stride);
    }
  }
  b.output(classify(b, x, "fc", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> resnet3d_entries() {
  return {with_alias(plain_entry("resnet3d_18", "3-D ResNet-18 for video (r3d_18)", resnet3d_18,
                                 {{"size", 112, "height and width of a frame", 1, 8192},
                                  {"frames", 16, "frames of a clip", 1, 4096},
                                  {"classes", 400, "outputs of the classifier"}}),
                     "r3d_18")};
}

}  // namespace tessera::zoo
