// VGG without batch normalisation: 3x3 convolutions and three large linear layers.
#include <algorithm>
#include <array>

#include "tessera/frontend/zoo/layers.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

// nn.AdaptiveAvgPool2d((size, size)), which exports only where the output divides the input.
Value adaptive_pool(ModelBuilder& b, const Value& x, std::int64_t size) {
  if (b.failed()) return x;
  const std::int64_t h = x.dim(2);
  if (h % size != 0) {
    b.refuse("AveragePool: features of {}x{} do not divide into {}x{}; give another size", h, h,
             size, size);
    return x;
  }
  return average_pool(b, x, square(h / size, h / size));
}

Value relu_linear(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  return relu(b, linear(b, x, name, out));
}

void vgg(ModelBuilder& b, const Settings& s, const std::array<int, 5>& convs) {
  Value x = image_input(b, s);
  int layer = 0;
  std::int64_t channels = 64;
  for (const int count : convs) {
    for (int i = 0; i < count; ++i, layer += 2) {
      x = relu(b,
               conv(b, x, fmt::format("features.{}", layer), {channels, square(3, 1, 1), 1, true}));
    }
    x = max_pool(b, x, square(2, 2));
    ++layer;
    channels = std::min<std::int64_t>(512, channels * 2);
  }
  x = flatten(b, adaptive_pool(b, x, 7));
  x = relu_linear(b, x, "classifier.0", s.at("hidden"));
  x = relu_linear(b, x, "classifier.3", s.at("hidden"));
  b.output(linear(b, x, "classifier.6", s.at("classes")), "output");
}

void alexnet(ModelBuilder& b, const Settings& s) {
  Value x = image_input(b, s);
  x = relu(b, conv(b, x, "features.0", {64, square(11, 4, 2), 1, true}));
  x = max_pool(b, x, square(3, 2));
  x = relu(b, conv(b, x, "features.3", {192, square(5, 1, 2), 1, true}));
  x = max_pool(b, x, square(3, 2));
  x = relu(b, conv(b, x, "features.6", {384, square(3, 1, 1), 1, true}));
  x = relu(b, conv(b, x, "features.8", {256, square(3, 1, 1), 1, true}));
  x = relu(b, conv(b, x, "features.10", {256, square(3, 1, 1), 1, true}));
  x = max_pool(b, x, square(3, 2));
  x = flatten(b, adaptive_pool(b, x, 6));
  x = relu_linear(b, x, "classifier.1", s.at("hidden"));
  x = relu_linear(b, x, "classifier.4", s.at("hidden"));
  b.output(linear(b, x, "classifier.6", s.at("classes")), "output");
}

ZooEntry row(std::string name, std::string doc, Build build) {
  ZooEntry entry = image_entry(std::move(name), std::move(doc), build);
  entry.params.push_back({"hidden", 4096, "width of the two linear layers", 1, 16384});
  return entry;
}

}  // namespace

std::vector<ZooEntry> vgg_entries() {
  return {
      row("vgg11", "VGG-11",
          [](ModelBuilder& b, const Settings& s) {
            vgg(b, s, {1, 1, 2, 2, 2});
          }),
      row("vgg13", "VGG-13",
          [](ModelBuilder& b, const Settings& s) {
            vgg(b, s, {2, 2, 2, 2, 2});
          }),
      row("vgg16", "VGG-16",
          [](ModelBuilder& b, const Settings& s) {
            vgg(b, s, {2, 2, 3, 3, 3});
          }),
      row("vgg19", "VGG-19",
          [](ModelBuilder& b, const Settings& s) {
            vgg(b, s, {2, 2, 4, 4, 4});
          }),
      row("alexnet", "AlexNet", alexnet),
  };
}

}  // namespace tessera::zoo
