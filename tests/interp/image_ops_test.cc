// Convolutions and pools against hand-written loops in double, on odd sizes.
#include <cmath>
#include <limits>

#include "tests/interp/op_harness.h"

namespace tessera::interp {
namespace {

// An NHWC or NCHW tensor read with zeros outside.
struct Image {
  const HostTensor& data;
  std::int64_t h, w, c;
  bool channels_first = false;

  bool inside(std::int64_t y, std::int64_t x) const { return y >= 0 && y < h && x >= 0 && x < w; }
  double at(std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t ch) const {
    if (!inside(y, x)) return 0;
    return data.get_float(channels_first ? ((n * c + ch) * h + y) * w + x
                                         : ((n * h + y) * w + x) * c + ch);
  }
};

struct Conv {
  std::int64_t n, h, w, ci, co, kh, kw, stride, pad, dilation, groups;

  std::string spec(const std::string& more = "") const {
    return fmt::format("conv2d:N={},H={},W={},CI={},CO={},KH={},KW={},S={},P={},D={},G={}{}", n, h,
                       w, ci, co, kh, kw, stride, pad, dilation, groups, more);
  }
  std::int64_t oh() const { return (h + 2 * pad - dilation * (kh - 1) - 1) / stride + 1; }
  std::int64_t ow() const { return (w + 2 * pad - dilation * (kw - 1) - 1) / stride + 1; }
  double at(const Image& x, const HostTensor& weight, std::int64_t b, std::int64_t y,
            std::int64_t col, std::int64_t o) const {
    double sum = 0;
    const std::int64_t cig = ci / groups, g = o / (co / groups);
    for (std::int64_t c = 0; c < cig; ++c) {
      for (std::int64_t i = 0; i < kh; ++i) {
        for (std::int64_t j = 0; j < kw; ++j) {
          sum += x.at(b, y * stride - pad + i * dilation, col * stride - pad + j * dilation,
                      g * cig + c) *
                 weight.get_float(((o * cig + c) * kh + i) * kw + j);
        }
      }
    }
    return sum;
  }
  std::int64_t length() const { return kh * kw * ci / groups; }
};

constexpr Conv kConvs[] = {
    {1, 7, 5, 3, 4, 3, 3, 1, 0, 1, 1},  {2, 7, 5, 3, 4, 3, 3, 1, 1, 1, 1},
    {1, 9, 11, 2, 3, 3, 2, 2, 1, 1, 1}, {1, 9, 9, 2, 3, 3, 3, 1, 2, 2, 1},
    {1, 5, 5, 4, 6, 3, 3, 1, 1, 1, 2},  {1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1},
    {1, 5, 7, 6, 6, 1, 1, 3, 0, 1, 3},
};

TEST(InterpImage, Conv2dNhwc) {
  for (const Conv& conv : kConvs) {
    SCOPED_TRACE(conv.spec());
    const OpRun r = run_op(conv.spec());
    const Image x{r.inputs[0], conv.h, conv.w, conv.ci};
    expect_output(r, conv.length(), [&](std::int64_t e) {
      const std::int64_t o = e % conv.co, col = e / conv.co % conv.ow(),
                         y = e / conv.co / conv.ow() % conv.oh();
      return conv.at(x, r.inputs[1], e / conv.co / conv.ow() / conv.oh(), y, col, o);
    });
  }
}

TEST(InterpImage, Conv2dNchw) {
  for (const Conv& conv : kConvs) {
    SCOPED_TRACE(conv.spec(",layout=nchw"));
    const OpRun r = run_op(conv.spec(",layout=nchw"));
    const Image x{r.inputs[0], conv.h, conv.w, conv.ci, true};
    expect_output(r, conv.length(), [&](std::int64_t e) {
      const std::int64_t col = e % conv.ow(), y = e / conv.ow() % conv.oh(),
                         o = e / conv.ow() / conv.oh() % conv.co;
      return conv.at(x, r.inputs[1], e / conv.ow() / conv.oh() / conv.co, y, col, o);
    });
  }
}

TEST(InterpImage, Conv2dBlockedChannels) {
  const Conv conv{1, 5, 6, 4, 6, 3, 3, 1, 1, 1, 1};
  const OpRun r = run_op(conv.spec(",layout=nchwc,CB=2"));
  HostTensor plain(DType::kF32, {1, 5, 6, 4});  // NHWC copy of X[1, 2, 5, 6, 2]
  for (std::int64_t e = 0; e < plain.size(); ++e) {
    const std::int64_t c = e % 4, at = e / 4;
    plain.set_float(e, r.in(0, (c / 2 * 30 + at) * 2 + c % 2));
  }
  const Image x{plain, conv.h, conv.w, conv.ci};
  expect_output(r, conv.length(), [&](std::int64_t e) {
    const std::int64_t inner = e % 2, col = e / 2 % 6, y = e / 12 % 5, block = e / 60;
    return conv.at(x, r.inputs[1], 0, y, col, block * 2 + inner);
  });
}

TEST(InterpImage, Conv2dAsymmetricPadding) {
  const OpRun r = run_op("conv2d:N=1,H=6,W=6,CI=2,CO=2,KH=3,KW=3,S=2,P=0,PB=1,PR=1");
  const Conv conv{1, 6, 6, 2, 2, 3, 3, 2, 0, 1, 1};
  ASSERT_EQ(r.outputs[0].shape(), (Shape{1, 3, 3, 2}));
  const Image x{r.inputs[0], 6, 6, 2};
  expect_output(
      r, 18, [&](std::int64_t e) { return conv.at(x, r.inputs[1], 0, e / 6, e / 2 % 3, e % 2); });
}

TEST(InterpImage, Conv2dOfIntegersIsExact) {
  const Conv conv{1, 7, 5, 3, 4, 3, 3, 1, 1, 1, 1};
  const OpRun r = run_op(conv.spec(",dtype=i8"));
  EXPECT_EQ(r.outputs[0].dtype(), DType::kI32);
  const Image x{r.inputs[0], 7, 5, 3};
  expect_output(r, conv.length(), [&](std::int64_t e) {
    return conv.at(x, r.inputs[1], 0, e / 20, e / 4 % 5, e % 4);
  });
}

TEST(InterpImage, Conv2dInHalfPrecision) {
  const Conv conv{1, 7, 5, 3, 4, 3, 3, 1, 1, 1, 1};
  const OpRun r = run_op(conv.spec(",dtype=f16"));
  EXPECT_EQ(r.outputs[0].dtype(), DType::kF16);
  const Image x{r.inputs[0], 7, 5, 3};
  expect_output(r, conv.length(), [&](std::int64_t e) {
    return conv.at(x, r.inputs[1], 0, e / 20, e / 4 % 5, e % 4);
  });
}

TEST(InterpImage, Conv1d) {
  for (const bool first : {false, true}) {
    const OpRun r = run_op(std::string("conv1d:N=2,W=9,CI=3,CO=2,KW=3,S=2,P=1,layout=") +
                           (first ? "ncw" : "nwc"));
    const Image x{r.inputs[0], 1, 9, 3, first};
    expect_output(r, 9, [&](std::int64_t e) {
      const std::int64_t n = e / 10, o = first ? e / 5 % 2 : e % 2, col = first ? e % 5 : e / 2 % 5;
      double sum = 0;
      for (std::int64_t c = 0; c < 3; ++c) {
        for (std::int64_t k = 0; k < 3; ++k)
          sum += x.at(n, 0, col * 2 - 1 + k, c) * r.in(1, (o * 3 + c) * 3 + k);
      }
      return sum;
    });
  }
}

TEST(InterpImage, Conv3d) {
  for (const bool first : {false, true}) {
    const OpRun r =
        run_op(std::string("conv3d:N=1,ID=4,H=5,W=3,CI=2,CO=3,KD=3,KH=3,KW=2,P=1,PK=0,layout=") +
               (first ? "ncdhw" : "ndhwc"));
    const std::int64_t od = 3, oh = 5, ow = 4;
    ASSERT_EQ(r.outputs[0].shape(), first ? (Shape{1, 3, od, oh, ow}) : (Shape{1, od, oh, ow, 3}));
    const auto x = [&](std::int64_t d, std::int64_t h, std::int64_t w, std::int64_t c) {
      if (d < 0 || d >= 4 || h < 0 || h >= 5 || w < 0 || w >= 3) return 0.0;
      return r.in(0, first ? ((c * 4 + d) * 5 + h) * 3 + w : ((d * 5 + h) * 3 + w) * 2 + c);
    };
    expect_output(r, 36, [&](std::int64_t e) {
      const std::int64_t o = first ? e / (od * oh * ow) : e % 3,
                         at = first ? e % (od * oh * ow) : e / 3;
      double sum = 0;
      for (std::int64_t t = 0; t < 36; ++t) {  // c, kd, kh, kw
        const std::int64_t kw = t % 2, kh = t / 2 % 3, kd = t / 6 % 3, c = t / 18;
        sum += x(at / (oh * ow) + kd - 1, at / ow % oh + kh - 1, at % ow + kw - 1, c) *
               r.in(1, o * 36 + t);
      }
      return sum;
    });
  }
}

TEST(InterpImage, Depthwise) {
  for (const bool first : {false, true}) {
    const OpRun r = run_op(std::string("depthwise:N=2,H=7,W=6,C=3,KH=3,KW=3,S=2,P=1,layout=") +
                           (first ? "nchw" : "nhwc"));
    const std::int64_t oh = 4, ow = 3;
    const Image x{r.inputs[0], 7, 6, 3, first};
    expect_output(r, 9, [&](std::int64_t e) {
      const std::int64_t n = e / (oh * ow * 3), rest = e % (oh * ow * 3);
      const std::int64_t c = first ? rest / (oh * ow) : rest % 3,
                         at = first ? rest % (oh * ow) : rest / 3;
      double sum = 0;
      for (std::int64_t k = 0; k < 9; ++k) {
        sum += x.at(n, at / ow * 2 - 1 + k / 3, at % ow * 2 - 1 + k % 3, c) * r.in(1, c * 9 + k);
      }
      return sum;
    });
  }
}

struct Transposed {
  std::int64_t h, w, kh, kw, stride, pad, extra;
};

TEST(InterpImage, ConvTranspose2d) {
  constexpr std::int64_t kIn = 2, kOut = 3;
  for (const Transposed& t : {Transposed{4, 5, 4, 4, 2, 1, 0}, Transposed{4, 5, 3, 3, 2, 1, 1},
                              Transposed{3, 4, 3, 2, 1, 0, 0}, Transposed{3, 3, 2, 2, 3, 0, 2},
                              Transposed{5, 5, 5, 3, 2, 2, 0}, Transposed{6, 6, 3, 3, 1, 2, 0},
                              Transposed{1, 1, 4, 4, 1, 0, 0}, Transposed{1, 1, 4, 3, 2, 1, 0},
                              Transposed{1, 1, 2, 2, 2, 0, 1}, Transposed{1, 4, 4, 4, 2, 1, 0},
                              Transposed{4, 5, 4, 5, 2, 1, 1}}) {
    const std::string spec =
        fmt::format("conv_transpose2d:N=1,H={},W={},CI=2,CO=3,KH={},KW={},S={},P={},OP={}", t.h,
                    t.w, t.kh, t.kw, t.stride, t.pad, t.extra);
    SCOPED_TRACE(spec);
    const OpRun r = run_op(spec);
    const std::vector<HostTensor> gathered = run(make(spec + ",algo=im2col"), r.inputs).value();
    EXPECT_EQ(testing::mismatch(gathered[0], r.outputs[0],
                                testing::tolerance(DType::kF32, kIn * t.kh * t.kw)),
              "");
    const std::int64_t oh = (t.h - 1) * t.stride + t.kh + t.extra - 2 * t.pad;
    const std::int64_t ow = (t.w - 1) * t.stride + t.kw + t.extra - 2 * t.pad;
    ASSERT_EQ(r.outputs[0].shape(), (Shape{1, oh, ow, kOut}));
    std::vector<double> want(
        static_cast<std::size_t>(oh * ow * kOut));  // by scattering, as the operation is defined
    for (std::int64_t e = 0; e < t.h * t.w * kIn * kOut * t.kh * t.kw; ++e) {
      const std::int64_t kw = e % t.kw, kh = e / t.kw % t.kh, o = e / t.kw / t.kh % kOut;
      const std::int64_t rest = e / t.kw / t.kh / kOut, c = rest % kIn, x = rest / kIn % t.w,
                         y = rest / kIn / t.w;
      const std::int64_t ty = y * t.stride - t.pad + kh, tx = x * t.stride - t.pad + kw;
      if (ty < 0 || ty >= oh || tx < 0 || tx >= ow) continue;
      want[static_cast<std::size_t>((ty * ow + tx) * kOut + o)] +=
          r.in(0, (y * t.w + x) * kIn + c) * r.in(1, ((c * kOut + o) * t.kh + kh) * t.kw + kw);
    }
    expect_output(r, kIn * t.kh * t.kw,
                  [&](std::int64_t e) { return want[static_cast<std::size_t>(e)]; });
  }
}

TEST(InterpImage, Maxpool2d) {
  const OpRun r = run_op("maxpool2d:N=1,H=7,W=6,C=2,KH=3,KW=2,S=2,P=1");
  const Image x{r.inputs[0], 7, 6, 2};
  expect_output(r, 1, [&](std::int64_t e) {
    double best = -std::numeric_limits<double>::infinity();
    for (std::int64_t k = 0; k < 6; ++k) {
      const std::int64_t y = e / 8 * 2 - 1 + k / 2, col = e / 2 % 4 * 2 - 1 + k % 2;
      if (x.inside(y, col)) best = std::fmax(best, x.at(0, y, col, e % 2));
    }
    return best;
  });
}

TEST(InterpImage, Avgpool2d) {
  for (const bool include : {false, true}) {
    const OpRun r =
        run_op(std::string("avgpool2d:N=1,H=7,W=6,C=2,KH=3,KW=2,S=2,P=1,layout=nchw,include_pad=") +
               (include ? "yes" : "no"));
    const Image x{r.inputs[0], 7, 6, 2, true};
    expect_output(r, 6, [&](std::int64_t e) {
      double sum = 0;
      std::int64_t count = 0;
      for (std::int64_t k = 0; k < 6; ++k) {
        const std::int64_t y = e / 4 % 4 * 2 - 1 + k / 2, col = e % 4 * 2 - 1 + k % 2;
        sum += x.at(0, y, col, e / 16);
        count += include || x.inside(y, col) ? 1 : 0;
      }
      return sum / static_cast<double>(count);
    });
  }
}

TEST(InterpImage, Globalavgpool) {
  const OpRun r = run_op("globalavgpool:N=2,H=5,W=3,C=4");
  ASSERT_EQ(r.outputs[0].shape(), (Shape{2, 4}));
  expect_output(r, 15, [&](std::int64_t e) {
    double sum = 0;
    for (std::int64_t at = 0; at < 15; ++at) sum += r.in(0, (e / 4 * 15 + at) * 4 + e % 4);
    return sum / 15;
  });
}

}  // namespace
}  // namespace tessera::interp
