#include "tests/peers/peer_reference.h"

#include <algorithm>
#include <cmath>

namespace tessera::peers {
namespace {

using Inputs = std::vector<std::vector<float>>;

float at(const std::vector<float>& data, std::int64_t index) {
  return data[static_cast<std::size_t>(index)];
}

void matmul(const Spec& s, const Inputs& in, std::vector<float>& out) {
  const bool dense = s.kind == OpKind::kDense;
  for (std::int64_t i = 0; i < s.batch * s.m * s.n; ++i) {
    const std::int64_t column = i % s.n;
    const std::int64_t row = i / s.n % s.m;
    const std::int64_t batch = i / s.n / s.m;
    double sum = dense ? at(in[2], column) : 0.0;
    for (std::int64_t k = 0; k < s.k; ++k) {
      const std::int64_t a = s.transpose_a ? k * s.m + row : row * s.k + k;
      const std::int64_t b = dense || s.transpose_b ? column * s.k + k : k * s.n + column;
      sum += double{at(in[0], batch * s.m * s.k + a)} * at(in[1], batch * s.k * s.n + b);
    }
    out[static_cast<std::size_t>(i)] = static_cast<float>(dense ? std::max(sum, 0.0) : sum);
  }
}

struct Image {
  Layout layout;
  std::int64_t h, w, c;
  std::int64_t offset(std::int64_t n, std::int64_t y, std::int64_t x, std::int64_t channel) const {
    return layout == Layout::kNhwc ? ((n * h + y) * w + x) * c + channel
                                   : ((n * c + channel) * h + y) * w + x;
  }
};

double conv_point(const ConvShape& c, const Inputs& in, std::int64_t n, std::int64_t oy,
                  std::int64_t ox, std::int64_t o) {
  const Image x{c.layout, c.h, c.w, c.ci};
  const std::int64_t per_group = c.ci / c.groups;
  const std::int64_t first = o / (c.co / c.groups) * per_group;
  double sum = 0.0;
  for (std::int64_t i = 0; i < per_group; ++i) {
    for (std::int64_t ky = 0; ky < c.kh; ++ky) {
      for (std::int64_t kx = 0; kx < c.kw; ++kx) {
        const std::int64_t y = oy * c.stride + ky * c.dilation - c.pad;
        const std::int64_t z = ox * c.stride + kx * c.dilation - c.pad;
        if (y < 0 || y >= c.h || z < 0 || z >= c.w) continue;
        sum += double{at(in[0], x.offset(n, y, z, first + i))} *
               at(in[1], ((o * per_group + i) * c.kh + ky) * c.kw + kx);
      }
    }
  }
  return sum;
}

void conv(const ConvShape& c, const Inputs& in, std::vector<float>& out) {
  const Image y{c.layout, c.oh, c.ow, c.co};
  for (std::int64_t n = 0; n < c.n; ++n) {
    for (std::int64_t oy = 0; oy < c.oh; ++oy) {
      for (std::int64_t ox = 0; ox < c.ow; ++ox) {
        for (std::int64_t o = 0; o < c.co; ++o) {
          out[static_cast<std::size_t>(y.offset(n, oy, ox, o))] =
              static_cast<float>(conv_point(c, in, n, oy, ox, o));
        }
      }
    }
  }
}

void softmax(const Spec& s, const Inputs& in, std::vector<float>& out) {
  for (std::int64_t r = 0; r < s.rows; ++r) {
    double sum = 0.0;
    for (std::int64_t c = 0; c < s.columns; ++c)
      sum += std::exp(double{at(in[0], r * s.columns + c)});
    for (std::int64_t c = 0; c < s.columns; ++c) {
      const std::int64_t i = r * s.columns + c;
      out[static_cast<std::size_t>(i)] = static_cast<float>(std::exp(double{at(in[0], i)}) / sum);
    }
  }
}

void layernorm(const Spec& s, const Inputs& in, std::vector<float>& out) {
  const auto columns = static_cast<double>(s.columns);
  for (std::int64_t r = 0; r < s.rows; ++r) {
    double mean = 0.0;
    double variance = 0.0;
    for (std::int64_t c = 0; c < s.columns; ++c) mean += at(in[0], r * s.columns + c) / columns;
    for (std::int64_t c = 0; c < s.columns; ++c) {
      const double centred = at(in[0], r * s.columns + c) - mean;
      variance += centred * centred / columns;
    }
    for (std::int64_t c = 0; c < s.columns; ++c) {
      const std::int64_t i = r * s.columns + c;
      const double normal = (at(in[0], i) - mean) / std::sqrt(variance + 1e-5);
      out[static_cast<std::size_t>(i)] = static_cast<float>(normal * at(in[1], c) + at(in[2], c));
    }
  }
}

}  // namespace

std::vector<float> reference(const Spec& spec, const Inputs& inputs) {
  std::vector<float> out(static_cast<std::size_t>(spec.output_count));
  switch (spec.kind) {
    case OpKind::kMatmul:
    case OpKind::kBmm:
    case OpKind::kDense:
      matmul(spec, inputs, out);
      break;
    case OpKind::kConv2d:
    case OpKind::kDepthwise:
      conv(spec.conv, inputs, out);
      break;
    case OpKind::kSoftmax:
      softmax(spec, inputs, out);
      break;
    case OpKind::kLayernorm:
      layernorm(spec, inputs, out);
      break;
  }
  return out;
}

float tolerance(const Spec& spec) {
  const ConvShape& c = spec.conv;
  const std::int64_t reduction = std::max(spec.k, c.ci / c.groups * c.kh * c.kw);
  return 4e-6f + 1e-6f * static_cast<float>(reduction);
}

}  // namespace tessera::peers
