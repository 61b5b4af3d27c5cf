// Small convolutional networks: LeNet-5 and the deep Q network.
#include "tessera/frontend/zoo/layers.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

void lenet(ModelBuilder& b, const Settings& s) {
  Value x = b.input("input", b.dtype(), {s.at("batch"), 1, s.at("size"), s.at("size")});
  x = tanh(b, conv(b, x, "conv1", {6, square(5, 1, 2), 1, true}));
  x = average_pool(b, x, square(2, 2));
  x = tanh(b, conv(b, x, "conv2", {16, square(5), 1, true}));
  x = flatten(b, average_pool(b, x, square(2, 2)));
  x = tanh(b, linear(b, x, "fc1", 120));
  x = tanh(b, linear(b, x, "fc2", 84));
  b.output(linear(b, x, "fc3", s.at("classes")), "output");
}

void dqn(ModelBuilder& b, const Settings& s) {
  Value x = b.input("input", b.dtype(), {s.at("batch"), 4, s.at("size"), s.at("size")});
  x = relu(b, conv(b, x, "conv1", {32, square(8, 4), 1, true}));
  x = relu(b, conv(b, x, "conv2", {64, square(4, 2), 1, true}));
  x = relu(b, conv(b, x, "conv3", {64, square(3), 1, true}));
  x = relu(b, linear(b, flatten(b, x), "fc1", 512));
  b.output(linear(b, x, "fc2", s.at("actions")), "output");
}

}  // namespace

std::vector<ZooEntry> small_convnet_entries() {
  return {
      plain_entry(
          "lenet", "LeNet-5 for 28x28 digits", lenet,
          {{"size", 28, "height and width of the image", 1, 1024}, {"classes", 10, "outputs"}}),
      plain_entry(
          "dqn", "deep Q network (Nature 2015): four frames of 84x84", dqn,
          {{"size", 84, "height and width of a frame", 1, 1024}, {"actions", 18, "outputs"}}),
  };
}

}  // namespace tessera::zoo
