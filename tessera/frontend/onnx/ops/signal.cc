// Windows, mel filters and Fourier transforms. A transform is a product with a constant matrix of
// cosines and sines.
#include <cmath>

#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

const double kPi = std::acos(-1.0);

// Elements of a constant that import makes.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 26;

// Input `i` as one integer of at least `least`.
Result<std::int64_t> constant_integer(const Context& c, std::size_t i, const char* what,
                                      std::int64_t least) {
  TESSERA_TRY(const std::vector<std::int64_t> list, c.constant_integers(i, what));
  if (list.size() != 1) return invalid("{} has {} elements instead of one", what, list.size());
  if (list[0] < least) return invalid("{} is {}", what, list[0]);
  if (list[0] > kMaxElements) {
    return make_error(ErrorCode::kUnsupported, "{} is {}", what, list[0]);
  }
  return list[0];
}

Result<double> constant_number(const Context& c, std::size_t i, const char* what) {
  TESSERA_TRY(const HostTensor* value, c.constant(i, what));
  if (value->size() != 1 || !is_float(value->dtype())) return invalid("{} is not one number", what);
  return value->get_float(0);
}

Result<DType> window_type(const Context& c) {
  TESSERA_TRY(const std::int64_t number, c.integer("output_datatype", 1));
  return dtype_of_number(number);
}

void store(HostTensor& t, std::int64_t i, double v) {
  if (is_float(t.dtype())) {
    t.set_float(i, v);
  } else {
    t.set_int(i, static_cast<std::int64_t>(v));
  }
}

// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n); a0 + a1 + a2 = 1.
Result<Values> window(Context& c, double a0, double a1, double a2) {
  TESSERA_TRY(const std::int64_t size, constant_integer(c, 0, "size", 0));
  TESSERA_TRY(const std::int64_t periodic, c.integer("periodic", 1));
  TESSERA_TRY(const DType type, window_type(c));
  const std::int64_t period = periodic != 0 ? size : size - 1;
  HostTensor t(type, {size});
  for (std::int64_t i = 0; i < size; ++i) {
    // A symmetric window of one point is its middle.
    const double angle =
        period == 0 ? kPi : 2 * kPi * static_cast<double>(i) / static_cast<double>(period);
    store(t, i, a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  return Values{c.b.constant(std::move(t))};
}

Result<Values> import_hann(Context& c) { return window(c, 0.5, 0.5, 0); }
Result<Values> import_hamming(Context& c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
Result<Values> import_blackman(Context& c) { return window(c, 0.42, 0.5, 0.08); }

struct MelFilters {
  std::int64_t bands = 0, dft_length = 0, sample_rate = 0;
  double low = 0, high = 0;  // Hz
};

Result<MelFilters> read_mel(const Context& c) {
  MelFilters m;
  TESSERA_TRY(m.bands, constant_integer(c, 0, "num_mel_bins", 0));
  TESSERA_TRY(m.dft_length, constant_integer(c, 1, "dft_length", 0));
  TESSERA_TRY(m.sample_rate, constant_integer(c, 2, "sample_rate", 1));
  TESSERA_TRY(m.low, constant_number(c, 3, "lower_edge_hertz"));
  TESSERA_TRY(m.high, constant_number(c, 4, "upper_edge_hertz"));
  if (!(m.low >= 0) || !(m.high >= m.low) || !(m.high < 1e9)) {
    return invalid("a band from {} to {} Hz", m.low, m.high);
  }
  if (m.bands * (m.dft_length / 2 + 1) > kMaxElements) {
    return make_error(ErrorCode::kUnsupported, "a matrix of {} by {}", m.dft_length / 2 + 1,
                      m.bands);
  }
  return m;
}

// The spectrogram bins at which the triangles of the filters begin, peak and end.
std::vector<std::int64_t> mel_edges(const MelFilters& m) {
  const auto to_mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double first = to_mel(m.low);
  const double step = (to_mel(m.high) - first) / static_cast<double>(m.bands + 2);
  std::vector<std::int64_t> edges;
  for (std::int64_t i = 0; i < m.bands + 2; ++i) {
    const double hertz = 700 * (std::pow(10, (first + static_cast<double>(i) * step) / 2595) - 1);
    edges.push_back(static_cast<std::int64_t>(std::floor(
        static_cast<double>(m.dft_length + 1) * hertz / static_cast<double>(m.sample_rate))));
  }
  return edges;
}

Result<Values> import_mel_weights(Context& c) {
  TESSERA_TRY(const MelFilters m, read_mel(c));
  TESSERA_TRY(const DType type, window_type(c));
  const std::vector<std::int64_t> edges = mel_edges(m);
  const std::int64_t bins = m.dft_length / 2 + 1;
  HostTensor t(type, {bins, m.bands});
  for (std::int64_t band = 0; band < m.bands; ++band) {
    const auto at = static_cast<std::size_t>(band);
    const std::int64_t low = edges[at], peak = edges[at + 1], high = edges[at + 2];
    const auto ratio = [](std::int64_t a, std::int64_t b) {
      return b == 0 ? 1.0 : static_cast<double>(a) / static_cast<double>(b);
    };
    for (std::int64_t bin = low; bin < std::min(bins, std::max(high, peak + 1)); ++bin) {
      store(t, bin * m.bands + band,
            bin < peak || high == peak ? ratio(bin - low, peak - low)
                                       : ratio(high - bin, high - peak));
    }
  }
  return Values{c.b.constant(std::move(t))};
}

// cos(2 pi i / n), exact at quarters of a turn. 0 <= i.
double cos_turn(std::int64_t i, std::int64_t n) {
  i %= n;
  if (4 * i == n || 4 * i == 3 * n) return 0;
  return std::cos(2 * kPi * static_cast<double>(i) / static_cast<double>(n));
}

// sin(2 pi i / n) = cos(2 pi (i / n - 1 / 4))
double sin_turn(std::int64_t i, std::int64_t n) { return cos_turn(4 * i + 3 * n, 4 * n); }

struct Transform {
  std::int64_t length = 0;  // n of the formula
  std::int64_t used = 0;    // samples that are not padding: at most `length`
  std::int64_t bins = 0;
  std::int64_t parts = 0;  // 1: real samples; 2: complex ones
  bool inverse = false;
  bool to_real = false;  // inverse of a one-sided spectrum: bins are real samples
};

// [used, parts, bins, 2]: what a part of a sample adds to the parts of a bin.
Result<HostTensor> transform_matrix(const Transform& d, DType type) {
  const Shape shape = {d.used, d.parts, d.bins, 2};
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, type));
  if (count > kMaxElements) {
    return make_error(ErrorCode::kUnsupported, "a Fourier transform of {} samples", d.used);
  }
  HostTensor w(type, shape);
  const double scale = d.inverse ? 1 / static_cast<double>(d.length) : 1;
  const double sign = d.inverse ? scale : -scale;
  for (std::int64_t n = 0; n < d.used; ++n) {
    for (std::int64_t k = 0; k < d.bins; ++k) {
      const double re = scale * cos_turn(n * k, d.length);
      const double im = sign * sin_turn(n * k % d.length, d.length);
      const std::int64_t real = (n * d.parts * d.bins + k) * 2;
      w.set_float(real, re);
      w.set_float(real + 1, im);
      if (d.parts == 1) continue;
      const std::int64_t imaginary = real + d.bins * 2;
      w.set_float(imaginary, -im);
      w.set_float(imaginary + 1, re);
    }
  }
  return w;
}

// [used, parts, bins, 1]: what a part of bin k of a one-sided spectrum adds to a sample. The bins
// that are not there are the conjugates of those that are; bin 0 and, of an even length, the last
// have none.
Result<HostTensor> real_matrix(const Transform& d, DType type) {
  const Shape shape = {d.used, d.parts, d.bins, 1};
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, type));
  if (count > kMaxElements) {
    return make_error(ErrorCode::kUnsupported, "a Fourier transform of {} samples", d.bins);
  }
  HostTensor w(type, shape);
  for (std::int64_t k = 0; k < d.used; ++k) {
    const bool single = k == 0 || 2 * k == d.length;
    const double scale = (single ? 1 : 2) / static_cast<double>(d.length);
    for (std::int64_t t = 0; t < d.bins; ++t) {
      const std::int64_t real = k * d.parts * d.bins + t;
      w.set_float(real, scale * cos_turn(k * t, d.length));
      if (d.parts == 1) continue;
      w.set_float(real + d.bins, single ? 0 : -scale * sin_turn(k * t % d.length, d.length));
    }
  }
  return w;
}

Result<Transform> read_transform(const Context& c, std::int64_t axis) {
  Transform d;
  TESSERA_TRY(const std::int64_t inverse, c.integer("inverse", 0));
  TESSERA_TRY(const std::int64_t onesided, c.integer("onesided", 0));
  d.inverse = inverse != 0;
  d.to_real = d.inverse && onesided != 0;
  const Shape shape = c.shape(0);
  d.parts = shape.back();
  if (d.parts != 1 && d.parts != 2) {
    return invalid("the last axis of {} must have size 1 or 2", to_text(shape));
  }
  const std::int64_t given = shape[static_cast<std::size_t>(axis)];
  d.length = d.to_real ? 2 * (given - 1) : given;
  if (c.has(1)) {
    TESSERA_TRY(d.length, constant_integer(c, 1, "dft_length", 1));
  }
  if (d.length < 1) return invalid("a transform of no sample");
  const std::int64_t half = d.length / 2 + 1;
  d.used = std::min(d.to_real ? half : d.length, given);
  d.bins = onesided != 0 && !d.to_real ? half : d.length;
  return d;
}

Result<Values> import_dft(Context& c) {
  const std::int64_t rank = c.rank(0);
  if (rank < 2 || !is_float(c.dtype(0))) {
    return invalid("floats [..., samples, ..., 1 or 2] are needed");
  }
  std::int64_t given = c.version < 20 ? 1 : -2;
  if (c.version < 20) {
    TESSERA_TRY(given, c.integer("axis", given));
  } else if (c.has(2)) {
    TESSERA_TRY(const std::vector<std::int64_t> list, c.constant_integers(2, "axis"));
    if (list.size() != 1) return invalid("axis has {} elements", list.size());
    given = list[0];
  }
  TESSERA_TRY(const std::int64_t axis, c.axis(given, rank));
  if (axis == rank - 1) return invalid("axis {} holds the parts of the numbers", axis);
  TESSERA_TRY(const Transform d, read_transform(c, axis));
  Shape shape = c.shape(0);
  const auto at = static_cast<std::size_t>(axis);
  const Shape outer(shape.begin(), shape.begin() + axis);
  const Shape inner(shape.begin() + axis + 1, shape.end() - 1);
  Formula f(c);
  const Term x = slice(f, f.wide(0), at, 0, d.used);
  const DType t = compute_type(c.dtype(0));
  TESSERA_TRY(HostTensor matrix, d.to_real ? real_matrix(d, t) : transform_matrix(d, t));
  const std::int64_t results = d.to_real ? 1 : 2;
  const std::int64_t others = elements(inner);
  const Term samples = f.reshape(x, {elements(outer), d.used, others, d.parts});
  // All bins are columns of one product: by themselves, the two parts of a number make no vector.
  const Term columns =
      f.reshape(f.constant(std::move(matrix)), {d.used, d.parts, d.bins * results});
  Term y = contract(f, samples, "onip", columns, "npc", "oic");
  if (others != 1) {
    y = transpose(f, f.reshape(y, {elements(outer), others, d.bins, results}), {0, 2, 1, 3});
  }
  shape[at] = d.bins;
  shape.back() = results;
  return f.result(f.reshape(y, shape), c.dtype(0));
}

struct Frames {
  std::int64_t step = 0, length = 0, count = 0;
  Shape signal;  // [batch, samples, 1 or 2]
};

Result<Frames> read_frames(const Context& c) {
  Frames frames;
  Shape& shape = frames.signal;
  shape = c.shape(0);
  // Real numbers may come without the last axis: exporters write it so, and ONNX Runtime takes it.
  if (shape.size() == 2) shape.push_back(1);
  if (shape.size() != 3 || !is_float(c.dtype(0)) || (shape[2] != 1 && shape[2] != 2)) {
    return invalid("a signal [batch, samples] or [batch, samples, 1 or 2] is needed, not {}",
                   to_text(shape));
  }
  TESSERA_TRY(frames.step, constant_integer(c, 1, "frame_step", 1));
  if (c.has(3)) {
    TESSERA_TRY(frames.length, constant_integer(c, 3, "frame_length", 1));
  } else if (c.has(2)) {
    frames.length = elements(c.shape(2));
  } else {
    return invalid("neither window nor frame_length is given");
  }
  if (c.has(2) && c.shape(2) != Shape{frames.length}) {
    return invalid("a window of {} for frames of {}", to_text(c.shape(2)), frames.length);
  }
  if (frames.length < 1 || frames.length > shape[1]) {
    return invalid("frames of {} in {} samples", frames.length, shape[1]);
  }
  frames.count = (shape[1] - frames.length) / frames.step + 1;
  return frames;
}

// A convolution whose filters are the rows of the transform: frames are never laid out.
Result<Values> import_stft(Context& c) {
  TESSERA_TRY(const Frames frames, read_frames(c));
  TESSERA_TRY(const std::int64_t onesided, c.integer("onesided", 1));
  const Shape& shape = frames.signal;
  const Transform d{.length = frames.length,
                    .used = frames.length,
                    .bins = onesided != 0 ? frames.length / 2 + 1 : frames.length,
                    .parts = shape[2]};
  Formula f(c);
  TESSERA_TRY(HostTensor matrix, transform_matrix(d, compute_type(c.dtype(0))));
  Term w = f.constant(std::move(matrix));
  if (c.has(2)) w = w * f.reshape(f.cast(f.in(2), f.dtype(w)), {frames.length, 1, 1, 1});
  w = f.reshape(transpose(f, w, {2, 3, 1, 0}), {d.bins * 2, d.parts, frames.length});
  const std::vector<std::int64_t> zero = {0}, one = {1}, strides = {frames.step};
  const Term y = f.op("conv", {transpose(f, f.reshape(f.wide(0), shape), {0, 2, 1}), w},
                      {{"strides", strides},
                       {"before", zero},
                       {"after", zero},
                       {"dilations", one},
                       {"group", std::int64_t{1}},
                       {"layout", std::string("nchw")}});
  const Term split = f.reshape(y, {shape[0], d.bins, 2, frames.count});
  return f.result(transpose(f, split, {0, 3, 1, 2}), c.dtype(0));
}

}  // namespace

std::vector<OnnxOp> signal_rows() {
  return {
      {"BlackmanWindow", 17, 1, 1, import_blackman},
      {"DFT", 17, 1, 2, import_dft},
      {"DFT", 20, 1, 3, import_dft},
      {"HammingWindow", 17, 1, 1, import_hamming},
      {"HannWindow", 17, 1, 1, import_hann},
      {"MelWeightMatrix", 17, 5, 5, import_mel_weights},
      {"STFT", 17, 2, 4, import_stft},
  };
}

}  // namespace tessera::onnx
