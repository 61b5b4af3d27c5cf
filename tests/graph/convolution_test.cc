// Convolutions of the graph against sums written as loops.
#include <gtest/gtest.h>

#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"
#include "tessera/support/rng.h"
#include "tests/graph/node_runner.h"

namespace tessera::graph {
namespace {

using tessera::testing::mismatch;
using tessera::testing::tolerance;
using testing::floats;
using testing::ints;
using testing::refusal;
using testing::run_node;

// Calls fn for every point of `shape`.
template <class Fn>
void for_each_point(const Shape& shape, const Fn& fn) {
  Shape p(shape.size(), 0);
  for (std::int64_t left = elements(shape); left > 0; --left) {
    fn(p);
    for (std::size_t d = shape.size(); d-- > 0 && ++p[d] == shape[d];) p[d] = 0;
  }
}

std::int64_t flat(const Shape& shape, const Shape& p) {
  std::int64_t i = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) i = i * shape[d] + p[d];
  return i;
}

struct ConvCase {
  const char* name;
  Shape x, w;  // x[n, c, ...]
  Shape strides, before, after, dilations;
  std::int64_t group = 1;
  Shape output_padding = {};
};

Attrs attributes(const ConvCase& c, const char* layout) {
  Attrs attrs{{"strides", c.strides},     {"before", c.before}, {"after", c.after},
              {"dilations", c.dilations}, {"group", c.group},   {"layout", std::string(layout)}};
  if (!c.output_padding.empty()) attrs.set("output_padding", c.output_padding);
  return attrs;
}

// [n, c, ...] to [n, ..., c], or back.
HostTensor move_channels(const HostTensor& x, bool last) {
  const std::size_t rank = x.shape().size();
  const auto moved = [&](const Shape& p) {
    Shape q = {p[0]};
    if (last) {
      q.insert(q.end(), p.begin() + 2, p.end());
      q.push_back(p[1]);
    } else {
      q.push_back(p[rank - 1]);
      q.insert(q.end(), p.begin() + 1, p.end() - 1);
    }
    return q;
  };
  HostTensor y(x.dtype(), moved(x.shape()));
  for_each_point(x.shape(), [&](const Shape& p) {
    y.set_float(flat(y.shape(), moved(p)), x.get_float(flat(x.shape(), p)));
  });
  return y;
}

// Adds every product of an input element and a tap to `add(output point, product)`.
template <class Position>
void multiply_all(const ConvCase& c, const HostTensor& x, const HostTensor& w, HostTensor& y,
                  bool transposed, const Position& position) {
  const std::size_t rank = c.x.size() - 2;
  const std::int64_t per_group_in = c.x[1] / c.group;
  const std::int64_t per_group_out = transposed ? c.w[1] : c.w[0] / c.group;
  for_each_point(y.shape(), [&](const Shape& o) {
    double sum = 0;
    Shape taps(c.w.begin() + 2, c.w.end());
    taps.push_back(per_group_in);
    for_each_point(taps, [&](const Shape& k) {
      const std::int64_t g = o[1] / per_group_out, ci = g * per_group_in + k[rank];
      Shape xi = {o[0], ci};
      Shape wi = transposed ? Shape{ci, o[1] % per_group_out} : Shape{o[1], k[rank]};
      for (std::size_t s = 0; s < rank; ++s) {
        const std::int64_t p = position(s, o[2 + s], k[s]);
        if (p < 0 || p >= c.x[2 + s]) return;
        xi.push_back(p);
        wi.push_back(k[s]);
      }
      sum += x.get_float(flat(c.x, xi)) * w.get_float(flat(c.w, wi));
    });
    y.set_float(flat(y.shape(), o), sum);
  });
}

HostTensor reference_conv(const ConvCase& c, const HostTensor& x, const HostTensor& w) {
  Shape out = {c.x[0], c.w[0]};
  for (std::size_t s = 0; s + 2 < c.x.size(); ++s) {
    const std::int64_t reach = c.dilations[s] * (c.w[2 + s] - 1) + 1;
    out.push_back((c.x[2 + s] + c.before[s] + c.after[s] - reach) / c.strides[s] + 1);
  }
  HostTensor y(DType::kF32, out);
  multiply_all(c, x, w, y, false, [&](std::size_t s, std::int64_t o, std::int64_t k) {
    return o * c.strides[s] + k * c.dilations[s] - c.before[s];
  });
  return y;
}

HostTensor reference_transpose(const ConvCase& c, const HostTensor& x, const HostTensor& w) {
  Shape out = {c.x[0], c.w[1] * c.group};
  for (std::size_t s = 0; s + 2 < c.x.size(); ++s) {
    const std::int64_t extra = c.output_padding.empty() ? 0 : c.output_padding[s];
    out.push_back((c.x[2 + s] - 1) * c.strides[s] + c.dilations[s] * (c.w[2 + s] - 1) + 1 + extra -
                  c.before[s] - c.after[s]);
  }
  HostTensor y(DType::kF32, out);
  multiply_all(c, x, w, y, true, [&](std::size_t s, std::int64_t o, std::int64_t k) {
    const std::int64_t t = o + c.before[s] - k * c.dilations[s];
    return t % c.strides[s] == 0 ? t / c.strides[s] : -1;
  });
  return y;
}

void check(const char* op, const ConvCase& c, bool transposed) {
  Rng rng(7);
  const HostTensor x = random_tensor(DType::kF32, c.x, rng);
  const HostTensor w = random_tensor(DType::kF32, c.w, rng);
  const HostTensor want = transposed ? reference_transpose(c, x, w) : reference_conv(c, x, w);
  const double allowed = tolerance(DType::kF32, elements(c.w));
  const auto first = run_node(op, attributes(c, "nchw"), {x, w});
  ASSERT_TRUE(first.ok()) << first.error().message;
  EXPECT_EQ(mismatch((*first)[0], want, allowed), "") << "channels first";
  const auto last = run_node(op, attributes(c, "nhwc"), {move_channels(x, true), w});
  ASSERT_TRUE(last.ok()) << last.error().message;
  EXPECT_EQ(mismatch(move_channels((*last)[0], false), want, allowed), "") << "channels last";
}

const ConvCase kConvs[] = {
    {"plain", {2, 3, 5, 4}, {4, 3, 3, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"one_dimension", {1, 2, 9}, {3, 2, 3}, {2}, {1}, {2}, {2}},
    {"three_dimensions",
     {1, 2, 4, 5, 4},
     {2, 2, 2, 3, 1},
     {1, 2, 1},
     {1, 0, 0},
     {0, 1, 2},
     {1, 1, 1}},
    {"four_dimensions",
     {1, 1, 2, 3, 2, 3},
     {1, 1, 2, 2, 1, 2},
     {1, 1, 1, 1},
     {0, 1, 0, 0},
     {0, 0, 0, 1},
     {1, 1, 1, 1}},
    {"asymmetric", {1, 2, 6, 7}, {3, 2, 3, 3}, {2, 3}, {1, 0}, {2, 1}, {1, 2}},
    {"unread_padding", {1, 1, 4, 4}, {1, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}},
    {"grouped", {2, 4, 5, 5}, {6, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
    {"depthwise", {1, 5, 6, 6}, {5, 1, 3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}, 5},
    {"depthwise_multiplier", {1, 3, 5, 5}, {6, 1, 3, 3}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 3},
    {"one_output_per_group", {1, 4, 4, 4}, {2, 2, 2, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 2},
};

class Conv : public ::testing::TestWithParam<ConvCase> {};
TEST_P(Conv, EqualsTheSum) { check("conv", GetParam(), false); }
INSTANTIATE_TEST_SUITE_P(Graph, Conv, ::testing::ValuesIn(kConvs),
                         [](const auto& test) { return std::string(test.param.name); });

const ConvCase kTransposed[] = {
    {"plain", {1, 2, 3, 4}, {2, 3, 3, 2}, {1, 1}, {0, 0}, {0, 0}, {1, 1}},
    {"strided", {2, 2, 3, 4}, {2, 3, 3, 4}, {2, 3}, {1, 0}, {0, 2}, {1, 1}},
    {"output_padding", {1, 2, 3, 3}, {2, 2, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1, {1, 0}},
    {"long_output_padding", {1, 1, 2, 2}, {1, 1, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1, {3, 2}},
    {"one_dimension", {1, 3, 5}, {3, 2, 4}, {3}, {2}, {1}, {1}},
    {"three_dimensions",
     {1, 1, 2, 3, 2},
     {1, 2, 2, 2, 3},
     {2, 1, 2},
     {0, 0, 1},
     {1, 0, 0},
     {1, 1, 1}},
    {"grouped", {1, 4, 3, 3}, {4, 3, 2, 2}, {2, 2}, {0, 1}, {1, 0}, {1, 1}, 2},
    {"dilated", {1, 2, 3, 4}, {2, 2, 3, 2}, {2, 1}, {1, 0}, {0, 1}, {2, 3}},
    {"dilated_groups", {1, 4, 3, 3}, {4, 2, 2, 2}, {2, 2}, {0, 0}, {0, 0}, {2, 2}, 2, {1, 1}},
};

class ConvTranspose : public ::testing::TestWithParam<ConvCase> {};
TEST_P(ConvTranspose, EqualsTheSum) { check("conv_transpose", GetParam(), true); }
INSTANTIATE_TEST_SUITE_P(Graph, ConvTranspose, ::testing::ValuesIn(kTransposed),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Conv, BytesOfAnyMixGiveI32) {
  const Attrs attrs{{"layout", std::string("nchw")}};
  for (const DType t : {DType::kI8, DType::kU8}) {
    const auto y = run_node(
        "conv", attrs, {ints({1, 1, 2}, {200, 100}, DType::kU8), ints({1, 1, 2}, {3, 100}, t)});
    ASSERT_TRUE(y.ok());
    EXPECT_EQ((*y)[0].dtype(), DType::kI32);
    EXPECT_EQ((*y)[0].get_int(0), 200 * 3 + 100 * 100);
  }
}

TEST(Conv, HalfPrecisionIsRoundedOnce) {
  const Attrs attrs{{"layout", std::string("nchw")}};
  // 2048 + 1 is no half: only the sum of both ones reaches the next number.
  const auto y = run_node(
      "conv", attrs,
      {floats({1, 1, 3}, {2048, 1, 1}, DType::kF16), floats({1, 1, 3}, {1, 1, 1}, DType::kF16)});
  ASSERT_TRUE(y.ok());
  EXPECT_EQ((*y)[0].get_float(0), 2050);
}

void expect_winograd(const ConvCase& c, const std::vector<int>& tiles) {
  Rng rng(3);
  const HostTensor x = random_tensor(DType::kF32, c.x, rng);
  const HostTensor w = random_tensor(DType::kF32, c.w, rng);
  for (const int m : tiles) {
    const Attrs attrs{{"m", std::int64_t{m}}, {"before", c.before}, {"after", c.after}};
    const auto y = run_node("conv_winograd", attrs,
                            {move_channels(x, true), te::winograd_weights(w, m).value()});
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_EQ(mismatch(move_channels((*y)[0], false), reference_conv(c, x, w), 1e-4), "") << m;
  }
}

TEST(ConvWinograd, EqualsTheSum) {
  expect_winograd({"", {2, 3, 7, 5}, {4, 3, 3, 3}, {1, 1}, {1, 0}, {1, 2}, {1, 1}}, {2, 4, 6});
}

TEST(ConvWinograd, EqualsTheSumOfOtherWindows) {
  for (const Shape& window : {Shape{1, 7}, Shape{7, 1}, Shape{5, 5}, Shape{2, 2}, Shape{3, 2}}) {
    const ConvCase c{"",     {1, 3, 9, 7}, {4, 3, window[0], window[1]}, {1, 1}, {1, 0},
                     {1, 2}, {1, 1}};
    expect_winograd(c, {2, 4});
  }
}

TEST(ConvTransposeWinograd, EqualsTheSum) {
  const ConvCase c{"", {2, 3, 3, 5}, {3, 4, 4, 3}, {2, 2}, {1, 1}, {1, 0}, {1, 1}, 1, {0, 1}};
  Rng rng(3);
  const HostTensor x = random_tensor(DType::kF32, c.x, rng);
  const HostTensor w = random_tensor(DType::kF32, c.w, rng);
  const HostTensor want = reference_transpose(c, x, w);
  std::vector<te::TransposedWindow> windows;
  for (std::size_t d = 0; d < 2; ++d) {
    windows.push_back({.axis = d == 0 ? "h" : "w",
                       .size = c.x[2 + d],
                       .kernel = c.w[2 + d],
                       .stride = c.strides[d],
                       .pad_lo = c.before[d],
                       .out = want.shape()[2 + d]});
  }
  for (const int m : {2, 4, 6}) {
    const HostTensor u = te::winograd_weights(w, windows, m).value();
    Attrs attrs{{"m", std::int64_t{m}}, {"kernel", Shape{4, 3}}, {"strides", c.strides},
                {"before", c.before},   {"after", c.after},      {"output_padding", Shape{0, 1}}};
    const auto y = run_node("conv_transpose_winograd", attrs, {move_channels(x, true), u});
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_EQ(mismatch(move_channels((*y)[0], false), want, 1e-4), "") << m;
  }
  const HostTensor u = te::winograd_weights(w, windows, 2).value();
  const Attrs other{{"m", std::int64_t{2}}, {"kernel", Shape{4, 7}}, {"strides", c.strides}};
  EXPECT_NE(refusal("conv_transpose_winograd", other, {move_channels(x, true), u})
                .find("transformed weights"),
            std::string::npos);
}

// Frames are transformed one by one; sums run over those of a window too.
TEST(ConvWinograd, EqualsTheSumWithDepth) {
  for (const std::int64_t batch : {1, 2}) {
    const ConvCase c{"",        {batch, 3, 4, 7, 5}, {4, 3, 3, 3, 3}, {1, 1, 1},
                     {1, 1, 0}, {1, 1, 2},           {1, 1, 1}};
    expect_winograd(c, {2, 4});
  }
}

TEST(Conv, RefusesWhatDoesNotFit) {
  const HostTensor x(DType::kF32, {1, 4, 5, 5}), w(DType::kF32, {4, 2, 3, 3});
  const auto with = [](std::int64_t group, const Shape& strides, const char* layout = "nchw") {
    return Attrs{{"group", group}, {"strides", strides}, {"layout", std::string(layout)}};
  };
  EXPECT_EQ(refusal("conv", with(2, {1, 1}), {x, w}), "");
  EXPECT_NE(refusal("conv", with(1, {1, 1}), {x, w}).find("do not fit 4 channels"),
            std::string::npos);
  EXPECT_NE(refusal("conv", with(0, {1, 1}), {x, w}).find("0 groups"), std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {1}), {x, w}).find("strides has 1 values"), std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {0, 1}), {x, w}).find("strides 0 is outside"),
            std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {1, 1}, "hwcn"), {x, w}).find("layout hwcn"),
            std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {1, 1}), {HostTensor(DType::kF32, {1, 4, 2, 5}), w})
                .find("kernel covers 3 elements"),
            std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {1, 1}), {x, HostTensor(DType::kF64, {4, 2, 3, 3})})
                .find("no product of f32 and f64"),
            std::string::npos);
  EXPECT_NE(refusal("conv", with(2, {1, 1}), {HostTensor(DType::kF32, {4, 4}), w}).find("shape"),
            std::string::npos);
}

TEST(Conv, EmptyBatchAndEmptyChannels) {
  const Attrs attrs{{"layout", std::string("nchw")}};
  const auto none = run_node(
      "conv", attrs, {HostTensor(DType::kF32, {0, 2, 4}), HostTensor(DType::kF32, {3, 2, 2})});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ((*none)[0].shape(), (Shape{0, 3, 3}));
  const auto zero = run_node(
      "conv", attrs, {HostTensor(DType::kF32, {1, 0, 4}), HostTensor(DType::kF32, {3, 0, 2})});
  ASSERT_TRUE(zero.ok()) << zero.error().message;
  EXPECT_EQ((*zero)[0].get_float(0), 0);
}

TEST(ConvTranspose, RefusesCroppingEverything) {
  const Attrs attrs{{"layout", std::string("nchw")}, {"before", Shape{4}}, {"after", Shape{4}}};
  EXPECT_NE(refusal("conv_transpose", attrs,
                    {HostTensor(DType::kF32, {1, 1, 3}), HostTensor(DType::kF32, {1, 1, 2})})
                .find("leaves no output"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::graph
