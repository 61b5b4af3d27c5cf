// DeformConv: every tap of the kernel reads the image at a place of its own, between pixels. The
// places become a grid of samples, which a product with the weights adds up.
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

enum Input : std::size_t { kX, kW, kOffset, kBias, kMask };

constexpr std::int64_t kMaxAttribute = std::int64_t{1} << 30;

struct Deform {
  std::int64_t n = 0, group = 1, offset_group = 1;
  Shape image, kernel, out;          // spatial
  Shape strides, dilations, before;  // per spatial axis

  std::size_t rank() const { return image.size(); }
  std::int64_t taps() const { return elements(kernel); }
};

Result<Shape> spatial(const Context& c, const char* name, const Shape& absent, std::int64_t least) {
  TESSERA_TRY(const Shape values, c.integers(name, absent));
  if (values.size() != absent.size()) return invalid("{} has {} values", name, values.size());
  for (const std::int64_t v : values) {
    if (v < least || v > kMaxAttribute) return invalid("{} has the value {}", name, v);
  }
  return values;
}

Result<void> check_shapes(const Context& c, const Deform& d) {
  const std::int64_t channels = c.shape(kX)[1], filters = c.shape(kW)[0];
  if (channels != c.shape(kW)[1] * d.group || filters % d.group != 0 ||
      channels % d.offset_group != 0) {
    return invalid("{} channels, weights {}, {} groups and {} groups of offsets do not fit",
                   channels, to_text(c.shape(kW)), d.group, d.offset_group);
  }
  const auto expect = [&](std::size_t i, const char* what, std::int64_t width) -> Result<void> {
    Shape want = {d.n, width};
    want.insert(want.end(), d.out.begin(), d.out.end());
    if (!c.has(i) || c.shape(i) == want) return {};
    return invalid("{} is {}, not {}", what, to_text(c.shape(i)), to_text(want));
  };
  const std::int64_t places = d.offset_group * d.taps();
  TESSERA_DO(expect(kOffset, "offset", places * static_cast<std::int64_t>(d.rank())));
  TESSERA_DO(expect(kMask, "mask", places));
  if (c.has(kBias) && c.shape(kBias) != Shape{filters}) {
    return invalid("bias {} for {} filters", to_text(c.shape(kBias)), filters);
  }
  return {};
}

Result<Deform> read_deform(const Context& c) {
  Deform d;
  const Shape x = c.shape(kX), w = c.shape(kW);
  if (x.size() < 3 || w.size() != x.size()) {
    return invalid("X {} and W {} need one rank, at least 3", to_text(x), to_text(w));
  }
  d.n = x[0];
  d.image.assign(x.begin() + 2, x.end());
  d.kernel.assign(w.begin() + 2, w.end());
  TESSERA_TRY(const Shape kernel, c.integers("kernel_shape", d.kernel));
  if (kernel != d.kernel) return invalid("kernel_shape {} is not that of W", to_text(kernel));
  TESSERA_TRY(d.group, c.integer("group", 1));
  TESSERA_TRY(d.offset_group, c.integer("offset_group", 1));
  if (d.group < 1 || d.offset_group < 1) return invalid("a number of groups is below 1");
  const Shape ones(d.rank(), 1), no_pads(2 * d.rank(), 0);
  TESSERA_TRY(d.strides, spatial(c, "strides", ones, 1));
  TESSERA_TRY(d.dilations, spatial(c, "dilations", ones, 1));
  TESSERA_TRY(const Shape pads, spatial(c, "pads", no_pads, 0));
  d.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(d.rank()));
  for (std::size_t i = 0; i < d.rank(); ++i) {
    const std::int64_t room =
        d.image[i] + pads[i] + pads[d.rank() + i] - d.dilations[i] * (d.kernel[i] - 1) - 1;
    if (room < 0 || d.kernel[i] < 1) return invalid("the kernel is larger than the padded image");
    d.out.push_back(room / d.strides[i] + 1);
  }
  TESSERA_DO(check_shapes(c, d));
  return d;
}

// [taps, out..., rank]: where the kernel would read without offsets, in pixels. The last axis of
// the image comes first, as grids have it.
HostTensor regular_places(const Deform& d) {
  Shape shape = {d.taps()};
  shape.insert(shape.end(), d.out.begin(), d.out.end());
  shape.push_back(static_cast<std::int64_t>(d.rank()));
  HostTensor places(DType::kF32, shape);
  const std::int64_t positions = elements(d.out);
  for (std::int64_t i = 0; i < places.size(); ++i) {
    const std::size_t axis = d.rank() - 1 - static_cast<std::size_t>(i) % d.rank();
    const std::int64_t flat = i / static_cast<std::int64_t>(d.rank());
    std::int64_t position = flat % positions, tap = flat / positions;
    for (std::size_t a = d.rank(); a-- > axis + 1;) {
      position /= d.out[a];
      tap /= d.kernel[a];
    }
    places.set_float(i,
                     static_cast<double>(position % d.out[axis] * d.strides[axis] - d.before[axis] +
                                         tap % d.kernel[axis] * d.dilations[axis]));
  }
  return places;
}

// [n * offset_group, taps, out..., rank]: places in pixels.
Term grid(Formula& f, const Deform& d) {
  const auto rank = static_cast<std::int64_t>(d.rank());
  Shape split = {d.n * d.offset_group, d.taps(), rank};
  split.insert(split.end(), d.out.begin(), d.out.end());
  std::vector<std::int64_t> perm = {0, 1};
  for (std::int64_t a = 0; a < rank; ++a) perm.push_back(3 + a);
  perm.push_back(2);
  HostTensor backwards(DType::kI64, {rank});
  for (std::int64_t a = 0; a < rank; ++a) backwards.set_int(a, rank - 1 - a);
  const Term offset = transpose(f, f.reshape(f.cast(f.in(kOffset), DType::kF32), split), perm);
  const Term turned =
      f.op("gather", {offset, f.constant(std::move(backwards))}, {{"axis", rank + 2}});
  return turned + f.constant(regular_places(d));
}

Result<std::vector<ValueId>> import_deform_conv(Context& c) {
  if (!is_float(c.dtype(kX))) return invalid("X is {}", to_text(c.dtype(kX)));
  TESSERA_TRY(const Deform d, read_deform(c));
  const std::int64_t channels = c.shape(kX)[1], filters = c.shape(kW)[0];
  const std::int64_t images = d.n * d.offset_group, positions = elements(d.out);
  Formula f(c);
  // The taps stand beside each other along the first axis of the grid.
  Shape rows = {images, d.taps() * d.out[0]};
  rows.insert(rows.end(), d.out.begin() + 1, d.out.end());
  rows.push_back(static_cast<std::int64_t>(d.rank()));
  Shape image = {images, channels / d.offset_group};
  image.insert(image.end(), d.image.begin(), d.image.end());
  Term samples = f.op("grid_sample", {f.reshape(f.wide(kX), image), f.reshape(grid(f, d), rows)},
                      {{"mode", std::string("linear")},
                       {"padding", std::string("zeros")},
                       {"align_corners", std::int64_t{0}},
                       {"pixels", std::int64_t{1}}});
  samples = f.reshape(samples, {images, channels / d.offset_group, d.taps() * positions});
  if (c.has(kMask)) {
    samples = samples * f.reshape(f.wide(kMask), {images, 1, d.taps() * positions});
  }
  samples = f.reshape(samples, {d.n, d.group, channels / d.group, d.taps(), positions});
  const Term weights =
      f.reshape(f.wide(kW), {d.group, filters / d.group, channels / d.group, d.taps()});
  Term y = contract(f, samples, "ngcko", weights, "gmck", "ngmo");
  Shape shape = {d.n, filters};
  shape.insert(shape.end(), d.out.begin(), d.out.end());
  y = f.reshape(y, shape);
  if (c.has(kBias)) y = y + f.along(f.wide(kBias), 1, c.rank(kX));
  return f.result(y, c.dtype(kX));
}

}  // namespace

std::vector<OnnxOp> deform_conv_rows() { return {{"DeformConv", 19, 3, 5, import_deform_conv}}; }

}  // namespace tessera::onnx
