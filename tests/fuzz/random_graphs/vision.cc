// Images and signals.
#include <algorithm>

#include "draw.h"

namespace tessera::fuzz {
namespace {

std::string word(Draw& d, std::vector<std::string> words) { return d.one_of(words); }

bool resize(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {3, 5}, within(-100, 100));
  Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  for (std::size_t k = 2; k < s.size(); ++k) s[k] = d.between(1, 2 * s[k] + 1);
  if (elements(s) > 4 * d.max_elements()) return false;
  // A mean of integers may fall on an integer, where rounding decides.
  std::vector<std::string> modes = {"nearest"};
  if (is_float(d.dtype(x))) modes.push_back("linear");
  if (is_float(d.dtype(x)) && s.size() == 4) modes.push_back("cubic");
  const std::string mode = d.one_of(modes);
  Attributes attributes = {
      attr("mode", mode),
      attr("coordinate_transformation_mode",
           word(d, {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"}))};
  if (mode == "nearest")
    attributes.push_back(attr("nearest_mode", word(d, {"floor", "ceil", "round_prefer_floor"})));
  return d.emit(row.name, {x, "", "", d.integers(s)}, attributes);
}

bool grid_sample(Draw& d, const OpRow& row) {
  const std::int64_t n = d.between(1, 2), c = d.between(1, 3);
  const DType t = d.type(row.types);
  const std::string x = d.shaped(t, {n, c, d.between(1, 5), d.between(1, 5)}, within(-20, 20));
  const std::string grid = d.fresh(t, {n, d.between(1, 5), d.between(1, 5), 2}, within(-1.3, 1.3));
  return d.emit(row.name, {x, grid},
                {attr("mode", d.opset < 20 ? word(d, {"bilinear", "nearest"})
                                           : word(d, {"linear", "nearest"})),
                 attr("padding_mode", word(d, {"zeros", "border", "reflection"})),
                 attr("align_corners", d.chance(0.5))});
}

bool affine_grid(Draw& d, const OpRow& row) {
  const std::int64_t n = d.between(1, 2);
  const bool deep = d.chance(0.3);
  Shape size = {n, 1, d.between(1, 5), d.between(1, 5)};
  if (deep) size.push_back(d.between(1, 3));
  const std::int64_t r = deep ? 3 : 2;
  return d.emit(row.name, {d.fresh(d.type(row.types), {n, r, r + 1}), d.integers(size)},
                {attr("align_corners", d.chance(0.5))});
}

bool col2im(Draw& d, const OpRow& row) {
  const std::int64_t h = d.between(2, 6), w = d.between(2, 6), c = d.between(1, 3);
  const Shape block = {d.between(1, 2), d.between(1, 2)};
  const std::int64_t places = (h - block[0] + 1) * (w - block[1] + 1);
  const std::string x =
      d.shaped(d.type(row.types), {1, c * block[0] * block[1], places}, within(-50, 50));
  return d.emit(row.name, {x, d.integers({h, w}), d.integers(block)});
}

bool roi(Draw& d, const OpRow& row) {
  const std::int64_t c = d.between(1, 3), n = d.between(1, 3);
  const bool align = row.name == std::string("RoiAlign");
  const DType t = d.type(row.types);
  const std::string x = d.shaped(t, {1, c, d.between(3, 7), d.between(3, 7)}, within(-50, 50));
  HostTensor boxes(t, {n, align ? 4 : 5});
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t at = i * (align ? 4 : 5) + (align ? 0 : 1);
    for (std::int64_t k = 0; k < 2; ++k) {
      const auto low = static_cast<double>(d.between(0, 2));
      boxes.set_float(at + k, low + (align ? 0.3 : 0));
      boxes.set_float(at + k + 2, low + static_cast<double>(d.between(1, 4)));
    }
  }
  const std::int64_t h = d.between(1, 3), w = d.between(1, 3);
  if (!align) return d.emit(row.name, {x, d.input(boxes)}, {attr("pooled_shape", Shape{h, w})});
  return d.emit(row.name, {x, d.input(boxes), d.constant(HostTensor(DType::kI64, {n}))},
                {attr("output_height", h), attr("output_width", w),
                 attr("sampling_ratio", d.between(1, 2)), attr("mode", word(d, {"avg", "max"}))});
}

bool window(Draw& d, const OpRow& row) {
  const std::string size = d.scalar(DType::kI64, static_cast<double>(d.between(1, 17)));
  return d.emit(row.name, {size}, {attr("periodic", d.chance(0.5))});
}

bool mel(Draw& d, const OpRow& row) {
  return d.emit(row.name, {d.scalar(DType::kI64, static_cast<double>(d.between(1, 5))),
                           d.scalar(DType::kI64, 16), d.scalar(DType::kI64, 8192),
                           d.scalar(DType::kF32, 0), d.scalar(DType::kF32, 4096)});
}

bool dft(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const bool complex = d.chance(0.4);
  const std::string x =
      d.shaped(t, {d.between(1, 2), d.between(1, 9), complex ? 2 : 1}, within(-9, 9));
  Attributes attributes = {attr("onesided", !complex && d.chance(0.5)),
                           attr("inverse", complex && d.chance(0.5))};
  if (d.opset < 20) attributes.push_back(attr("axis", 1));
  return d.emit(row.name, {x}, attributes);
}

bool stft(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const std::int64_t length = d.between(1, 6);
  const std::string x = d.shaped(t, {d.between(1, 2), length + d.between(0, 9), 1}, within(-9, 9));
  Names in = {x, d.scalar(DType::kI64, static_cast<double>(d.between(1, 4))),
              d.weight(t, {length})};
  if (d.chance(0.3)) in.push_back(d.scalar(DType::kI64, static_cast<double>(length)));
  return d.emit(row.name, in, {attr("onesided", d.chance(0.5))});
}

}  // namespace

std::vector<OpRow> vision_rows() {
  constexpr Types kWide = bit(DType::kF32) | bit(DType::kF64);
  return {
      {"Resize", kFloats | kBytes, resize, 13},
      {"GridSample", kWide, grid_sample, 16},
      {"AffineGrid", kWide, affine_grid, 20},
      {"Col2Im", kFloats, col2im, 18},
      {"RoiAlign", kWide, roi, 16},
      {"MaxRoiPool", kWide, roi},
      {"HannWindow", kF32Only, window, 17},
      {"HammingWindow", kF32Only, window, 17},
      {"BlackmanWindow", kF32Only, window, 17},
      {"MelWeightMatrix", kF32Only, mel, 17},
      {"DFT", kWide, dft, 17},
      {"STFT", kWide, stft, 17},
  };
}

}  // namespace tessera::fuzz
