// Weights as Winograd's products want them.
#include <array>

#include "tessera/lang/te/ops/toom_cook.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"

namespace tessera::te {
namespace {

// One axis of the filters: rows of g, and the tap that each of its columns meets (-1: none).
struct Side {
  Matrix g;
  std::vector<std::int64_t> taps;

  std::int64_t products() const { return static_cast<std::int64_t>(g.size()); }
};

Side whole_side(std::int64_t taps, std::int64_t m) {
  Side side{make_toom_cook(taps > 1 ? m : 1, taps).g, {}};
  for (std::int64_t k = 0; k < taps; ++k) side.taps.push_back(k);
  return side;
}

Side phase_side(const PhasedAxis& axis, std::int64_t phase, std::int64_t m) {
  Side side{make_toom_cook(m, axis.reach).g, {}};
  if (axis.skewed) side.g.erase(phase == 0 ? side.g.end() - 1 : side.g.begin());
  for (std::int64_t j = 0; j < axis.reach; ++j) side.taps.push_back(axis.tap(phase, j));
  return side;
}

// Where the filters lie.
struct Filters {
  const HostTensor& w;
  std::vector<std::int64_t> inputs;  // offset of each input channel and frame, as in the result
  std::int64_t outputs = 0, between = 0;  // output channels, and the elements between two
  std::int64_t row = 0;                   // elements between two rows of taps
};

constexpr std::int64_t kBlock =
    16;  // output channels at a time: they lie side by side in the result
using Block = std::array<double, kBlock>;

void store(const Block& values, std::size_t count, std::int64_t at, HostTensor& out) {
  if (out.dtype() == DType::kF32) {
    float* to = out.as<float>() + at;
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<float>(values[i]);
    return;
  }
  for (std::size_t i = 0; i < count; ++i)
    out.set_float(at + static_cast<std::int64_t>(i), values[i]);
}

void add_scaled(double factor, const Block& from, Block* to) {
  for (std::size_t o = 0; o < kBlock; ++o) (*to)[o] += factor * from[o];
}

// u[eps, nu, input, output] from element `begin` of u on.
void transform(const Filters& f, const Side& h, const Side& w, std::int64_t begin, HostTensor& u) {
  const float* floats = f.w.dtype() == DType::kF32 ? f.w.as<float>() : nullptr;
  const std::size_t rows = h.taps.size(), columns = w.taps.size();
  const auto inputs = static_cast<std::int64_t>(f.inputs.size());
  std::vector<Block> taps(rows * columns), half(h.g.size() * columns);  // half: g w
  for (std::int64_t c = 0; c < inputs; ++c) {
    for (std::int64_t first = 0; first < f.outputs; first += kBlock) {
      const auto n = static_cast<std::size_t>(std::min(kBlock, f.outputs - first));
      for (std::size_t k = 0; k < taps.size(); ++k) {
        taps[k] = {};
        const std::int64_t y = h.taps[k / columns], x = w.taps[k % columns];
        if (y < 0 || x < 0) continue;
        std::int64_t at = f.inputs[static_cast<std::size_t>(c)] + first * f.between + y * f.row + x;
        for (std::size_t o = 0; o < n; ++o, at += f.between)
          taps[k][o] = floats ? floats[at] : f.w.get_float(at);
      }
      for (std::size_t e = 0; e < h.g.size(); ++e) {
        for (std::size_t k = 0; k < columns; ++k) {
          Block& sum = half[e * columns + k];
          sum = {};
          for (std::size_t r = 0; r < rows; ++r) add_scaled(h.g[e][r], taps[r * columns + k], &sum);
        }
      }
      for (std::size_t e = 0; e < h.g.size(); ++e) {
        for (std::size_t v = 0; v < w.g.size(); ++v) {
          Block sum{};
          for (std::size_t k = 0; k < columns; ++k)
            add_scaled(w.g[v][k], half[e * columns + k], &sum);
          const auto place = static_cast<std::int64_t>(e * w.g.size() + v);
          store(sum, n, begin + (place * inputs + c) * f.outputs + first, u);
        }
      }
    }
  }
}

}  // namespace

Shape winograd_weights_shape(const Shape& w, int m) {
  const std::size_t rank = w.size();
  Shape shape = {winograd_products(w[rank - 2], m), winograd_products(w[rank - 1], m)};
  shape.insert(shape.end(), w.begin() + 2, w.end() - 2);  // the depth
  shape.insert(shape.end(), {w[1], w[0]});
  return shape;
}

Result<HostTensor> winograd_weights(const HostTensor& w, int m) {
  const Shape& shape = w.shape();
  const std::size_t rank = shape.size();
  if (!is_float(w.dtype()) || (rank != 4 && rank != 5) ||
      !has_winograd(shape[rank - 2], shape[rank - 1], m)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "winograd weights: float [co, ci, kh, kw] or [co, ci, d, kh, kw] of a window "
                      "that has tiles of m = 2, 4 or 6 are needed, not {} {} with m = {}",
                      to_text(w.dtype()), tessera::to_text(shape), m);
  }
  const std::int64_t ci = shape[1], depth = rank == 5 ? shape[2] : 1;
  const std::int64_t window = shape[rank - 2] * shape[rank - 1];
  HostTensor u(compute_type(w.dtype()), winograd_weights_shape(shape, m));
  Filters filters{.w = w,
                  .inputs = {},
                  .outputs = shape[0],
                  .between = ci * depth * window,
                  .row = shape[rank - 1]};
  for (std::int64_t c = 0; c < depth * ci; ++c)
    filters.inputs.push_back(((c % ci) * depth + c / ci) * window);
  transform(filters, whole_side(shape[rank - 2], m), whole_side(shape[rank - 1], m), 0, u);
  return u;
}

Shape winograd_weights_shape(const Shape& w, const std::vector<TransposedWindow>& windows, int m) {
  const PhasedAxis h(windows[0]), v(windows[1]);
  return {h.stride, v.stride, h.products(m), v.products(m), w[0], w[1]};
}

Result<HostTensor> winograd_weights(const HostTensor& w,
                                    const std::vector<TransposedWindow>& windows, int m) {
  const Shape& shape = w.shape();
  if (!is_float(w.dtype()) || shape.size() != 4 || !has_winograd(windows, m) ||
      shape[2] != windows[0].kernel || shape[3] != windows[1].kernel) {
    return make_error(ErrorCode::kInvalidArgument,
                      "winograd weights: float [ci, co, kh, kw] of a transposed window that has "
                      "tiles of m = 2, 4 or 6 are needed, not {} {} with m = {}",
                      to_text(w.dtype()), tessera::to_text(shape), m);
  }
  HostTensor u(compute_type(w.dtype()), winograd_weights_shape(shape, windows, m));
  const std::int64_t ci = shape[0], co = shape[1], window = shape[2] * shape[3];
  Filters filters{.w = w, .inputs = {}, .outputs = co, .between = window, .row = shape[3]};
  for (std::int64_t c = 0; c < ci; ++c) filters.inputs.push_back(c * co * window);
  const PhasedAxis h(windows[0]), v(windows[1]);
  std::int64_t begin = 0;
  for (std::int64_t ry = 0; ry < h.stride; ++ry) {
    for (std::int64_t rx = 0; rx < v.stride; ++rx) {
      const Side rows = phase_side(h, ry, m), columns = phase_side(v, rx, m);
      transform(filters, rows, columns, begin, u);
      begin += rows.products() * columns.products() * ci * co;
    }
  }
  return u;
}

Result<HostTensor> winograd_weights(const HostTensor& w, const OpSpec& spec) {
  const int m = winograd_tile(spec);
  if (spec.op != "conv_transpose2d") return winograd_weights(w, m);
  TESSERA_TRY(const OpSpec full, complete(spec));
  TESSERA_TRY(const std::vector<TransposedWindow> windows, read_transposed_windows(full));
  return winograd_weights(w, windows, m);
}

}  // namespace tessera::te
