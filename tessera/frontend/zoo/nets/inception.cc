// Inception-V3 without the auxiliary classifier: factorised convolutions (1x7, 7x1, 1x3, 3x1).
#include "tessera/frontend/zoo/conv_block.h"
#include "tessera/frontend/zoo/nets/nets.h"

namespace tessera::zoo {
namespace {

constexpr double kEpsilon = 1e-3;

Value unit(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out,
           const Window& window) {
  return conv_bn(b, x, name + ".conv", name + ".bn", {out, window}, Act::kRelu, kEpsilon);
}

Value pool_branch(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t out) {
  return unit(b, average_pool(b, x, square(3, 1, 1)), name + ".branch_pool", out, square(1));
}

Value join(ModelBuilder& b, const std::string& name, const std::vector<Value>& parts) {
  b.scope(name);
  return concat(b, parts, 1);
}

Value inception_a(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t pool) {
  const Value one = unit(b, x, name + ".branch1x1", 64, square(1));
  Value five = unit(b, x, name + ".branch5x5_1", 48, square(1));
  five = unit(b, five, name + ".branch5x5_2", 64, square(5, 1, 2));
  Value three = unit(b, x, name + ".branch3x3dbl_1", 64, square(1));
  three = unit(b, three, name + ".branch3x3dbl_2", 96, square(3, 1, 1));
  three = unit(b, three, name + ".branch3x3dbl_3", 96, square(3, 1, 1));
  return join(b, name, {one, five, three, pool_branch(b, x, name, pool)});
}

Value reduction_b(ModelBuilder& b, const Value& x, const std::string& name) {
  const Value three = unit(b, x, name + ".branch3x3", 384, square(3, 2));
  Value twice = unit(b, x, name + ".branch3x3dbl_1", 64, square(1));
  twice = unit(b, twice, name + ".branch3x3dbl_2", 96, square(3, 1, 1));
  twice = unit(b, twice, name + ".branch3x3dbl_3", 96, square(3, 2));
  return join(b, name, {three, twice, max_pool(b, x, square(3, 2))});
}

Value inception_c(ModelBuilder& b, const Value& x, const std::string& name, std::int64_t c7) {
  const Value one = unit(b, x, name + ".branch1x1", 192, square(1));
  Value seven = unit(b, x, name + ".branch7x7_1", c7, square(1));
  seven = unit(b, seven, name + ".branch7x7_2", c7, same(1, 7));
  seven = unit(b, seven, name + ".branch7x7_3", 192, same(7, 1));
  Value twice = unit(b, x, name + ".branch7x7dbl_1", c7, square(1));
  twice = unit(b, twice, name + ".branch7x7dbl_2", c7, same(7, 1));
  twice = unit(b, twice, name + ".branch7x7dbl_3", c7, same(1, 7));
  twice = unit(b, twice, name + ".branch7x7dbl_4", c7, same(7, 1));
  twice = unit(b, twice, name + ".branch7x7dbl_5", 192, same(1, 7));
  return join(b, name, {one, seven, twice, pool_branch(b, x, name, 192)});
}

Value reduction_d(ModelBuilder& b, const Value& x, const std::string& name) {
  Value three = unit(b, x, name + ".branch3x3_1", 192, square(1));
  three = unit(b, three, name + ".branch3x3_2", 320, square(3, 2));
  Value seven = unit(b, x, name + ".branch7x7x3_1", 192, square(1));
  seven = unit(b, seven, name + ".branch7x7x3_2", 192, same(1, 7));
  seven = unit(b, seven, name + ".branch7x7x3_3", 192, same(7, 1));
  seven = unit(b, seven, name + ".branch7x7x3_4", 192, square(3, 2));
  return join(b, name, {three, seven, max_pool(b, x, square(3, 2))});
}

// 1x3 and 3x1 side by side.
std::vector<Value> cross(ModelBuilder& b, const Value& x, const std::string& name) {
  return {unit(b, x, name + "a", 384, same(1, 3)), unit(b, x, name + "b", 384, same(3, 1))};
}

Value inception_e(ModelBuilder& b, const Value& x, const std::string& name) {
  std::vector<Value> parts = {unit(b, x, name + ".branch1x1", 320, square(1))};
  const Value three = unit(b, x, name + ".branch3x3_1", 384, square(1));
  for (const Value& part : cross(b, three, name + ".branch3x3_2")) parts.push_back(part);
  Value twice = unit(b, x, name + ".branch3x3dbl_1", 448, square(1));
  twice = unit(b, twice, name + ".branch3x3dbl_2", 384, square(3, 1, 1));
  for (const Value& part : cross(b, twice, name + ".branch3x3dbl_3")) parts.push_back(part);
  parts.push_back(pool_branch(b, x, name, 192));
  return join(b, name, parts);
}

void inception_v3(ModelBuilder& b, const Settings& s) {
  Value x = image_input(b, s);
  x = unit(b, x, "Conv2d_1a_3x3", 32, square(3, 2));
  x = unit(b, x, "Conv2d_2a_3x3", 32, square(3));
  x = unit(b, x, "Conv2d_2b_3x3", 64, square(3, 1, 1));
  x = max_pool(b, x, square(3, 2));
  x = unit(b, x, "Conv2d_3b_1x1", 80, square(1));
  x = unit(b, x, "Conv2d_4a_3x3", 192, square(3));
  x = max_pool(b, x, square(3, 2));
  x = inception_a(b, x, "Mixed_5b", 32);
  x = inception_a(b, x, "Mixed_5c", 64);
  x = inception_a(b, x, "Mixed_5d", 64);
  x = reduction_b(b, x, "Mixed_6a");
  x = inception_c(b, x, "Mixed_6b", 128);
  x = inception_c(b, x, "Mixed_6c", 160);
  x = inception_c(b, x, "Mixed_6d", 160);
  x = inception_c(b, x, "Mixed_6e", 192);
  x = reduction_d(b, x, "Mixed_7a");
  x = inception_e(b, x, "Mixed_7b");
  x = inception_e(b, x, "Mixed_7c");
  b.output(classify(b, x, "fc", s.at("classes")), "output");
}

}  // namespace

std::vector<ZooEntry> inception_entries() {
  return {image_entry("inception_v3", "Inception-V3 without the auxiliary classifier", inception_v3,
                      299)};
}

}  // namespace tessera::zoo
