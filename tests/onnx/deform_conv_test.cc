// DeformConv against plain loops, with groups, pads, strides, dilations and a mask.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::HasSubstr;

struct Sizes {
  std::int64_t n = 2, channels = 4, filters = 6, h = 5, w = 6, kh = 3, kw = 2;
  std::int64_t group = 2, offset_group = 2, stride = 2, dilation = 1, pad = 1;

  std::int64_t out_h() const { return (h + 2 * pad - dilation * (kh - 1) - 1) / stride + 1; }
  std::int64_t out_w() const { return (w + 2 * pad - dilation * (kw - 1) - 1) / stride + 1; }
};

// Between pixels by their distances; zero outside.
double sample(const HostTensor& x, std::int64_t image, const Sizes& s, double y, double z) {
  const double fy = std::floor(y), fz = std::floor(z);
  double sum = 0;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 2; ++b) {
      const auto r = static_cast<std::int64_t>(fy) + a, c = static_cast<std::int64_t>(fz) + b;
      if (r < 0 || r >= s.h || c < 0 || c >= s.w) continue;
      const double wy = a == 0 ? 1 - (y - fy) : y - fy, wz = b == 0 ? 1 - (z - fz) : z - fz;
      sum += wy * wz * x.get_float((image * s.h + r) * s.w + c);
    }
  return sum;
}

struct Data {
  HostTensor x, w, offset, bias, mask;
};

Data make_data(const Sizes& s) {
  Rng rng(41);
  const auto make = [&](const Shape& shape) { return random_tensor(DType::kF32, shape, rng); };
  const std::int64_t taps = s.offset_group * s.kh * s.kw;
  Data d{make({s.n, s.channels, s.h, s.w}), make({s.filters, s.channels / s.group, s.kh, s.kw}),
         make({s.n, 2 * taps, s.out_h(), s.out_w()}), make({s.filters}),
         make({s.n, taps, s.out_h(), s.out_w()})};
  for (std::int64_t i = 0; i < d.offset.size(); ++i)
    d.offset.set_float(i, 3 * d.offset.get_float(i));
  return d;
}

HostTensor reference(const Sizes& s, const Data& d, bool masked) {
  const std::int64_t oh = s.out_h(), ow = s.out_w(), per = s.channels / s.group;
  HostTensor y(DType::kF32, {s.n, s.filters, oh, ow});
  for (std::int64_t at = 0; at < y.size(); ++at) {
    const std::int64_t j = at % ow, i = at / ow % oh, filter = at / (ow * oh) % s.filters;
    const std::int64_t n = at / (ow * oh * s.filters), g = filter / (s.filters / s.group);
    double sum = d.bias.get_float(filter);
    for (std::int64_t c = 0; c < per; ++c)
      for (std::int64_t tap = 0; tap < s.kh * s.kw; ++tap) {
        const std::int64_t channel = g * per + c, og = channel / (s.channels / s.offset_group);
        const std::int64_t place = (n * s.offset_group + og) * s.kh * s.kw + tap;
        const auto offset = [&](std::int64_t axis) {
          return d.offset.get_float(((2 * place + axis) * oh + i) * ow + j);
        };
        const double row = static_cast<double>(i * s.stride - s.pad + tap / s.kw * s.dilation);
        const double column = static_cast<double>(j * s.stride - s.pad + tap % s.kw * s.dilation);
        double v = sample(d.x, n * s.channels + channel, s, row + offset(0), column + offset(1));
        if (masked) v *= d.mask.get_float((place * oh + i) * ow + j);
        sum += v * d.w.get_float((filter * per + c) * s.kh * s.kw + tap);
      }
    y.set_float(at, sum);
  }
  return y;
}

OneNode node_of(const Sizes& s) {
  using Ints = std::vector<std::int64_t>;
  return {"DeformConv",
          19,
          {attr("group", s.group), attr("offset_group", s.offset_group),
           attr("strides", Ints{s.stride, s.stride}),
           attr("dilations", Ints{s.dilation, s.dilation}), attr("pads", Ints(4, s.pad))}};
}

TEST(DeformConv, GroupsOffsetsAndMask) {
  for (const Sizes& s :
       {Sizes{}, Sizes{.group = 1, .offset_group = 1, .stride = 1, .dilation = 2, .pad = 2},
        Sizes{.n = 1,
        .channels = 2,
        .filters = 1,
        .h = 1,
        .w = 4,
        .kh = 1,
        .kw = 1,
        .group = 1,
        .offset_group = 2,
        .stride = 1,
        .dilation = 1,
        .pad = 0}}) {
    const Data d = make_data(s);
    const auto masked = run_node(node_of(s), {d.x, known(d.w), d.offset, d.bias, d.mask});
    ASSERT_TRUE(masked.ok()) << masked.error().message;
    EXPECT_EQ(tessera::testing::mismatch((*masked)[0], reference(s, d, true), 1e-4), "");
    const auto plain = run_node(node_of(s), {d.x, d.w, d.offset, d.bias});
    ASSERT_TRUE(plain.ok()) << plain.error().message;
    EXPECT_EQ(tessera::testing::mismatch((*plain)[0], reference(s, d, false), 1e-4), "");
  }
}

TEST(DeformConv, Refusals) {
  const Sizes s;
  const Data d = make_data(s);
  EXPECT_THAT(refusal(node_of(s), {d.x, d.w, d.mask}), HasSubstr("offset is 2x12x3x4, not 2x24"));
  EXPECT_THAT(refusal(node_of(s), {d.x, d.w, d.offset, d.bias, d.offset}), HasSubstr("mask is"));
  EXPECT_THAT(refusal(node_of(s), {d.x, d.w, d.offset, d.mask}), HasSubstr("for 6 filters"));
  Sizes three = s;
  three.group = 3;
  EXPECT_THAT(refusal(node_of(three), {d.x, d.w, d.offset}), HasSubstr("do not fit"));
  Sizes far = s;
  far.dilation = 9;
  EXPECT_THAT(refusal(node_of(far), {d.x, d.w, d.offset}), HasSubstr("larger than the padded"));
}

}  // namespace
}  // namespace tessera::onnx::testing
