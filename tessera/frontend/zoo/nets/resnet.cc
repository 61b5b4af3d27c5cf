// ResNet, Wide ResNet and ResNeXt as torchvision defines them.
#include <array>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

struct Config {
  std::array<int, 4> depths;
  bool bottleneck = true;
  std::int64_t groups = 1;
  std::int64_t base_width = 64;  // channels of a group in the first stage, times 64 / groups
};

// The end of a residual branch is small beside what it is added to, as training leaves it. With
// equal shares rounding errors grow a thousandfold in 152 layers and engines could not be compared.
constexpr double kBranchGain = 0.2;

// First a 1x1 or 3x3 convolution, last one without activation: it is applied after the addition.
Value residual_block(ModelBuilder& b, const Value& x, const std::string& name, const Config& config,
                     std::int64_t planes, std::int64_t stride) {
  const std::int64_t out = config.bottleneck ? 4 * planes : planes;
  Value y = x;
  if (config.bottleneck) {
    const std::int64_t width = planes * config.base_width / 64 * config.groups;
    y = conv_bn(b, y, name + ".conv1", name + ".bn1", {width, square(1)}, Act::kRelu);
    y = conv_bn(b, y, name + ".conv2", name + ".bn2", {width, square(3, stride, 1), config.groups},
                Act::kRelu);
    y = conv_bn(b, y, name + ".conv3", name + ".bn3", {out, square(1), 1, false, kBranchGain},
                Act::kNone);
  } else {
    y = conv_bn(b, y, name + ".conv1", name + ".bn1", {planes, square(3, stride, 1)}, Act::kRelu);
    y = conv_bn(b, y, name + ".conv2", name + ".bn2",
                {planes, square(3, 1, 1), 1, false, kBranchGain}, Act::kNone);
  }
  if (stride == 1 && x.dim(1) == out) return residual(b, y, x, Act::kRelu);
  const Value shortcut = conv_bn(b, x, name + ".downsample.0", name + ".downsample.1",
                                 {out, square(1, stride)}, Act::kNone);
  return residual(b, y, shortcut, Act::kRelu);
}

void resnet(ModelBuilder& b, const Settings& s, const Config& config) {
  Value x = quantized_input(b, s, image_input(b, s));
  x = conv_bn(b, x, "conv1", "bn1", {64, square(7, 2, 3)}, Act::kRelu);
  x = quantize_like(b, max_pool(b, x, square(3, 2, 1)), x);
  std::int64_t planes = 64;
  for (std::size_t stage = 0; stage < 4; ++stage, planes *= 2) {
    for (int i = 0; i < config.depths[stage]; ++i) {
      const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
      x = residual_block(b, x, fmt::format("layer{}.{}", stage + 1, i), config, planes, stride);
    }
  }
  b.output(classify(b, x, "fc", s.at("classes")), "output");
}

ZooEntry row(std::string name, std::string doc, Build build) {
  return with_quant(image_entry(std::move(name), std::move(doc), build));
}

}  // namespace

std::vector<ZooEntry> resnet_entries() {
  return {
      row("resnet18", "ResNet-18, two 3x3 convolutions per block",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{2, 2, 2, 2}, false});
          }),
      row("resnet34", "ResNet-34, two 3x3 convolutions per block",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 4, 6, 3}, false});
          }),
      row("resnet50", "ResNet-50 with bottlenecks",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 4, 6, 3}});
          }),
      row("resnet101", "ResNet-101 with bottlenecks",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 4, 23, 3}});
          }),
      row("resnet152", "ResNet-152 with bottlenecks",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 8, 36, 3}});
          }),
      with_alias(row("wide_resnet50_2", "ResNet-50 with bottlenecks twice as wide",
                     [](ModelBuilder& b, const Settings& s) {
                       resnet(b, s, {{3, 4, 6, 3}, true, 1, 128});
                     }),
                 "wide_resnet50"),
      row("wide_resnet101_2", "ResNet-101 with bottlenecks twice as wide",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 4, 23, 3}, true, 1, 128});
          }),
      with_alias(row("resnext50_32x4d", "ResNeXt-50, 32 groups of 4 channels",
                     [](ModelBuilder& b, const Settings& s) {
                       resnet(b, s, {{3, 4, 6, 3}, true, 32, 4});
                     }),
                 "resnext50"),
      row("resnext101_32x8d", "ResNeXt-101, 32 groups of 8 channels",
          [](ModelBuilder& b, const Settings& s) {
            resnet(b, s, {{3, 4, 23, 3}, true, 32, 8});
          }),
  };
}

}  // namespace tessera::zoo
