// MobileNet-V3: inverted residuals with squeeze-and-excitation and hard swish.
#include <span>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-3;

struct Block {
  std::int64_t kernel, hidden, out;
  bool excite;
  Act act;
  std::int64_t stride;
};

constexpr Act kRe = Act::kRelu;
constexpr Act kHs = Act::kHardSwish;

constexpr Block kLarge[] = {
    {3, 16, 16, false, kRe, 1},  {3, 64, 24, false, kRe, 2},  {3, 72, 24, false, kRe, 1},
    {5, 72, 40, true, kRe, 2},   {5, 120, 40, true, kRe, 1},  {5, 120, 40, true, kRe, 1},
    {3, 240, 80, false, kHs, 2}, {3, 200, 80, false, kHs, 1}, {3, 184, 80, false, kHs, 1},
    {3, 184, 80, false, kHs, 1}, {3, 480, 112, true, kHs, 1}, {3, 672, 112, true, kHs, 1},
    {5, 672, 160, true, kHs, 2}, {5, 960, 160, true, kHs, 1}, {5, 960, 160, true, kHs, 1},
};
constexpr Block kSmall[] = {
    {3, 16, 16, true, kRe, 2},  {3, 72, 24, false, kRe, 2}, {3, 88, 24, false, kRe, 1},
    {5, 96, 40, true, kHs, 2},  {5, 240, 40, true, kHs, 1}, {5, 240, 40, true, kHs, 1},
    {5, 120, 48, true, kHs, 1}, {5, 144, 48, true, kHs, 1}, {5, 288, 96, true, kHs, 2},
    {5, 576, 96, true, kHs, 1}, {5, 576, 96, true, kHs, 1},
};

Value inverted_residual(ModelBuilder& b, const Value& x, const std::string& name,
                        const Block& block) {
  Value y = x;
  int layer = 0;
  const auto next = [&] { return fmt::format("{}.block.{}", name, layer++); };
  if (block.hidden != x.dim(1)) {
    const std::string expand = next();
    y = conv_bn(b, y, expand + ".0", expand + ".1", {block.hidden, square(1)}, block.act, kEpsilon);
  }
  const std::string depthwise = next();
  y = conv_bn(b, y, depthwise + ".0", depthwise + ".1",
              {block.hidden, square(block.kernel, block.stride, block.kernel / 2), block.hidden},
              block.act, kEpsilon);
  if (block.excite) {
    const std::int64_t squeezed = make_divisible(static_cast<double>(block.hidden) / 4, 8);
    y = squeeze_excite(b, y, next(), squeezed, Act::kRelu, hard_sigmoid);
  }
  const std::string project = next();
  y = conv_bn(b, y, project + ".0", project + ".1", {block.out, square(1)}, Act::kNone, kEpsilon);
  return block.stride == 1 && x.dim(1) == block.out ? residual(b, y, x, Act::kNone) : y;
}

void mobilenet_v3(ModelBuilder& b, const Settings& s, std::span<const Block> blocks,
                  std::int64_t last) {
  Value x = image_input(b, s);
  x = conv_bn(b, x, "features.0.0", "features.0.1", {16, square(3, 2, 1)}, kHs, kEpsilon);
  int layer = 1;
  for (const Block& block : blocks) {
    x = inverted_residual(b, x, fmt::format("features.{}", layer++), block);
  }
  const std::string head = fmt::format("features.{}", layer);
  x = conv_bn(b, x, head + ".0", head + ".1", {6 * x.dim(1), square(1)}, kHs, kEpsilon);
  x = flatten(b, global_average_pool(b, x));
  x = activate(b, linear(b, x, "classifier.0", last), kHs);
  b.output(linear(b, x, "classifier.3", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> mobilenet_v3_entries() {
  return {
      with_alias(
          image_entry("mobilenet_v3_large", "MobileNet-V3 large",
                      [](ModelBuilder& b, const Settings& s) { mobilenet_v3(b, s, kLarge, 1280); }),
          "mobilenet_v3"),
      image_entry("mobilenet_v3_small", "MobileNet-V3 small",
                  [](ModelBuilder& b, const Settings& s) { mobilenet_v3(b, s, kSmall, 1024); }),
  };
}

}  // namespace tessera::zoo
