// DenseNet: every layer reads the concatenation of all earlier ones of its block.
#include <array>

#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr std::int64_t kGrowth = 32;

Value norm_relu(ModelBuilder& b, const Value& x, const std::string& name) {
  return relu(b, batch_norm(b, x, name));
}

Value dense_block(ModelBuilder& b, Value x, int block, int layers) {
  std::vector<Value> features = {std::move(x)};
  for (int i = 1; i <= layers; ++i) {
    const std::string name = fmt::format("features.denseblock{}.denselayer{}", block, i);
    b.scope(name);
    // The exporter writes a Concat also where there is one input.
    Value y = norm_relu(b, concat(b, features, 1), name + ".norm1");
    y = norm_relu(b, conv(b, y, name + ".conv1", {4 * kGrowth, square(1)}), name + ".norm2");
    features.push_back(conv(b, y, name + ".conv2", {kGrowth, square(3, 1, 1)}));
  }
  b.scope("");
  return concat(b, features, 1);
}

void densenet(ModelBuilder& b, const Settings& s, const std::array<int, 4>& layers) {
  Value x = image_input(b, s);
  x = conv_bn(b, x, "features.conv0", "features.norm0", {64, square(7, 2, 3)}, Act::kRelu);
  x = max_pool(b, x, square(3, 2, 1));
  for (int block = 1; block <= 4; ++block) {
    x = dense_block(b, x, block, layers[static_cast<std::size_t>(block - 1)]);
    if (block == 4) break;
    const std::string name = fmt::format("features.transition{}", block);
    x = norm_relu(b, x, name + ".norm");
    x = average_pool(b, conv(b, x, name + ".conv", {x.dim(1) / 2, square(1)}), square(2, 2));
  }
  x = norm_relu(b, x, "features.norm5");
  b.output(classify(b, x, "classifier", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> densenet_entries() {
  return {
      image_entry("densenet121", "DenseNet-121, growth 32",
                  [](ModelBuilder& b, const Settings& s) {
                    densenet(b, s, {6, 12, 24, 16});
                  }),
      image_entry("densenet169", "DenseNet-169, growth 32",
                  [](ModelBuilder& b, const Settings& s) {
                    densenet(b, s, {6, 12, 32, 32});
                  }),
  };
}

}  // namespace tessera::zoo
