// SqueezeNet: fire modules that squeeze to few channels and expand by 1x1 and 3x3 convolutions.
#include <vector>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

Value relu_conv(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out,
                const Window& window) {
  return relu(b, conv(b, x, name, {out, window, 1, true}));
}

Value fire(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t squeezed,
           std::int64_t expanded) {
  const Value y = relu_conv(b, x, name + ".squeeze", squeezed, square(1));
  const Value small = relu_conv(b, y, name + ".expand1x1", expanded, square(1));
  const Value large = relu_conv(b, y, name + ".expand3x3", expanded, square(3, 1, 1));
  b.scope(name);
  return concat(b, {small, large}, 1);
}

struct Config {
  std::int64_t stem_channels, stem_kernel;
  std::vector<int> pool_before;  // numbers of the fire modules
};

constexpr std::int64_t kSqueezed[] = {16, 16, 32, 32, 48, 48, 64, 64};

void squeezenet(ModelBuilder& b, const Settings& s, const Config& config) {
  Value x = image_input(b, s);
  x = relu_conv(b, x, "features.0", config.stem_channels, square(config.stem_kernel, 2));
  int layer = 2;
  for (int i = 0; i < 8; ++i) {
    for (const int at : config.pool_before) {
      if (at != i) continue;
      x = max_pool(b, x, square(3, 2), /*ceil_mode=*/true);
      ++layer;
    }
    x = fire(b, x, fmt::format("features.{}", layer++), kSqueezed[i], 4 * kSqueezed[i]);
  }
  x = relu_conv(b, x, "classifier.1", s.at("classes"), square(1));
  b.output(flatten(b, global_average_pool(b, x)), "output");
}

}  // namespace

std::vector<ZooEntry> squeezenet_entries() {
  return {
      image_entry("squeezenet1_0", "SqueezeNet 1.0",
                  [](ModelBuilder& b, const Settings& s) {
                    squeezenet(b, s, {96, 7, {0, 3, 7}});
                  }),
      with_alias(image_entry("squeezenet1_1", "SqueezeNet 1.1",
                             [](ModelBuilder& b, const Settings& s) {
                               squeezenet(b, s, {64, 3, {0, 2, 4}});
                             }),
                 "squeezenet"),
  };
}

}  // namespace tessera::zoo
