// GoogLeNet (Inception-V1) with batch normalisation, without the auxiliary classifiers.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-3;

Value unit(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out,
           const Window& window) {
  return conv_bn(b, x, name + ".conv", name + ".bn", {out, window}, Act::kRelu, kEpsilon);
}

// Channels: 1x1; 3x3 reduced and full; 5x5 reduced and full (torchvision computes it by 3x3); pool.
struct Module {
  const char* name;
  std::int64_t one, three_in, three, five_in, five, pool;
};

constexpr Module kModules[] = {
    {"inception3a", 64, 96, 128, 16, 32, 32},     {"inception3b", 128, 128, 192, 32, 96, 64},
    {"inception4a", 192, 96, 208, 16, 48, 64},    {"inception4b", 160, 112, 224, 24, 64, 64},
    {"inception4c", 128, 128, 256, 24, 64, 64},   {"inception4d", 112, 144, 288, 32, 64, 64},
    {"inception4e", 256, 160, 320, 32, 128, 128}, {"inception5a", 256, 160, 320, 32, 128, 128},
    {"inception5b", 384, 192, 384, 48, 128, 128}};

Value inception(ModelBuilder& b, const Value& x, const Module& m) {
  const std::string name = m.name;
  const Value one = unit(b, x, name + ".branch1", m.one, square(1));
  Value three = unit(b, x, name + ".branch2.0", m.three_in, square(1));
  three = unit(b, three, name + ".branch2.1", m.three, square(3, 1, 1));
  Value five = unit(b, x, name + ".branch3.0", m.five_in, square(1));
  five = unit(b, five, name + ".branch3.1", m.five, square(3, 1, 1));
  const Value pooled = max_pool(b, x, square(3, 1, 1), /*ceil_mode=*/true);
  const Value pool = unit(b, pooled, name + ".branch4.1", m.pool, square(1));
  b.scope(name);
  return concat(b, {one, three, five, pool}, 1);
}

void googlenet(ModelBuilder& b, const Settings& s) {
  Value x = image_input(b, s);
  x = unit(b, x, "conv1", 64, square(7, 2, 3));
  x = max_pool(b, x, square(3, 2), /*ceil_mode=*/true);
  x = unit(b, x, "conv2", 64, square(1));
  x = unit(b, x, "conv3", 192, square(3, 1, 1));
  x = max_pool(b, x, square(3, 2), /*ceil_mode=*/true);
  for (const Module& m : kModules) {
    x = inception(b, x, m);
    const std::string_view name = m.name;
    if (name == "inception3b") x = max_pool(b, x, square(3, 2), /*ceil_mode=*/true);
    if (name == "inception4e") x = max_pool(b, x, square(2, 2), /*ceil_mode=*/true);
  }
  b.output(classify(b, x, "fc", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> googlenet_entries() {
  return {image_entry("googlenet", "GoogLeNet with batch normalisation, no auxiliary classifiers",
                      googlenet)};
}

}  // namespace tessera::zoo
