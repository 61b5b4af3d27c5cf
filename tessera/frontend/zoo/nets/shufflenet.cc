// ShuffleNet-V2: halves of the channels are transformed and shuffled.
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

// Interleaves the two halves of the channels.
Value shuffle(ModelBuilder& b, const Value& x) {
  b.scope("");
  const Shape shape = x.shape;
  Value y = reshape(b, x, {shape[0], 2, shape[1] / 2, shape[2], shape[3]});
  y = transpose(b, y, {0, 2, 1, 3, 4});
  return reshape(b, y, shape);
}

// x[:, first half] and x[:, second half] as the exporter traces chunk(2): the middle is computed
// from Shape at run time.
std::pair<Value, Value> halves(ModelBuilder& b, const Value& x) {
  b.scope("");
  const std::int64_t half = x.dim(1) / 2;
  const Value shape = b.node("Shape", {x}, {4}, {}, {}, DType::kI64);
  const Value channels = gather(b, shape, b.ints({1}), 0);
  const Value rounded = b.node("Add", {channels, b.ints({1})}, {1}, {}, {}, DType::kI64);
  const Value middle = b.node("Div", {rounded, b.ints({2})}, {1}, {}, {}, DType::kI64);
  const Value end = b.node("Mul", {middle, b.ints({2})}, {1}, {}, {}, DType::kI64);
  const Value axis = b.ints({1});
  const Shape part = {x.dim(0), half, x.dim(2), x.dim(3)};
  return {b.node("Slice", {x, b.ints({0}), middle, axis}, part, {}, x.moments),
          b.node("Slice", {x, middle, end, axis}, part, {}, x.moments)};
}

Value transform(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t channels,
                std::int64_t stride) {
  Value y = conv_bn(b, x, name + ".0", name + ".1", {channels, square(1)}, Act::kRelu);
  y = conv_bn(b, y, name + ".3", name + ".4", {channels, square(3, stride, 1), channels},
              Act::kNone);
  return conv_bn(b, y, name + ".5", name + ".6", {channels, square(1)}, Act::kRelu);
}

Value unit(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t channels,
           std::int64_t stride) {
  const std::int64_t half = channels / 2;
  if (stride == 1) {
    const auto [kept, changed] = halves(b, x);
    const Value y = transform(b, changed, name + ".branch2", half, 1);
    b.scope(name);
    return shuffle(b, concat(b, {kept, y}, 1));
  }
  Value left = conv_bn(b, x, name + ".branch1.0", name + ".branch1.1",
                       {x.dim(1), square(3, stride, 1), x.dim(1)}, Act::kNone);
  left = conv_bn(b, left, name + ".branch1.2", name + ".branch1.3", {half, square(1)}, Act::kRelu);
  const Value right = transform(b, x, name + ".branch2", half, stride);
  b.scope(name);
  return shuffle(b, concat(b, {left, right}, 1));
}

void shufflenet(ModelBuilder& b, const Settings& s) {
  constexpr std::int64_t kChannels[] = {116, 232, 464};
  constexpr int kRepeats[] = {4, 8, 4};
  Value x = image_input(b, s);
  x = conv_bn(b, x, "conv1.0", "conv1.1", {24, square(3, 2, 1)}, Act::kRelu);
  x = max_pool(b, x, square(3, 2, 1));
  for (int stage = 0; stage < 3; ++stage) {
    for (int i = 0; i < kRepeats[stage]; ++i) {
      x = unit(b, x, fmt::format("stage{}.{}", stage + 2, i), kChannels[stage], i == 0 ? 2 : 1);
    }
  }
  x = conv_bn(b, x, "conv5.0", "conv5.1", {1024, square(1)}, Act::kRelu);
  b.scope("");
  x = reduce_mean(b, x, {2, 3}, false);
  b.output(linear(b, x, "fc", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> shufflenet_entries() {
  return {with_alias(image_entry("shufflenet_v2_x1_0", "ShuffleNet-V2, width 1.0", shufflenet),
                     "shufflenet")};
}

}  // namespace tessera::zoo
