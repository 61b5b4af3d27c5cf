// Conv and ConvTranspose; integer_conv.cc holds the integer forms.
#include <algorithm>

#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/windows.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// y plus one value per channel (axis 1), when input `i` gives it.
Result<Values> add_bias(Context& c, ValueId y, std::size_t i) {
  if (!c.has(i)) return Values{y};
  const Shape out = c.b.shape(y);
  if (c.shape(i) != Shape{out[1]}) {
    return make_error(ErrorCode::kInvalidArgument, "a bias of shape {} for {} channels",
                      to_text(c.shape(i)), out[1]);
  }
  Shape column(out.size(), 1);
  column[1] = out[1];
  TESSERA_TRY(const ValueId bias, c.b.reshape(c.in(i), column));
  TESSERA_TRY(const ValueId sum, c.b.add("add", {y, bias}));
  return Values{sum};
}

Result<Shape> kernel_of(const Context& c) { return spatial_sizes(c.shape(1)); }

Result<Values> import_conv(Context& c) {
  TESSERA_TRY(const Shape kernel, kernel_of(c));
  TESSERA_TRY(const Windows windows, read_windows(c, kernel));
  TESSERA_TRY(const std::int64_t group, c.integer("group", 1));
  graph::Attrs attrs = windows.attrs();
  attrs.set("group", group);
  TESSERA_TRY(const ValueId y, c.b.add("conv", {c.in(0), c.in(1)}, std::move(attrs)));
  return add_bias(c, y, 2);
}

struct Cropping {
  Shape before, after, output_padding;
};

// How much of the full transposed convolution is cut away: from pads, or so that the output has the
// size that output_shape or auto_pad asks for.
Result<Cropping> read_cropping(const Context& c, const Shape& sizes, const Shape& kernel,
                               const Shape& strides, const Shape& dilations) {
  const std::size_t rank = sizes.size();
  Cropping crop{Shape(rank, 0), Shape(rank, 0), {}};
  TESSERA_TRY(crop.output_padding, spatial_attribute(c, "output_padding", rank, 0, 0));
  TESSERA_TRY(const std::string auto_pad, read_auto_pad(c));
  TESSERA_TRY(Shape wanted, c.integers("output_shape", Shape{}));
  if (wanted.size() == rank + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty() && auto_pad == "VALID") return crop;
  if (wanted.empty() && auto_pad == "NOTSET") {
    TESSERA_DO(read_pads(c, rank, &crop.before, &crop.after));
    return crop;
  }
  if (wanted.empty()) {
    for (std::size_t s = 0; s < rank; ++s) wanted.push_back(sizes[s] * strides[s]);
  }
  if (wanted.size() != rank) {
    return make_error(ErrorCode::kInvalidArgument,
                      "output_shape has {} values for {} spatial dimensions", wanted.size(), rank);
  }
  for (std::size_t s = 0; s < rank; ++s) {
    if (wanted[s] < 0 || wanted[s] > (std::int64_t{1} << 46)) {
      return make_error(ErrorCode::kInvalidArgument, "output_shape {} is out of range", wanted[s]);
    }
    const std::int64_t reach = (kernel[s] - 1) * dilations[s] + 1;
    const std::int64_t total =
        (sizes[s] - 1) * strides[s] + crop.output_padding[s] + reach - wanted[s];
    if (total < 0) crop.output_padding[s] -= total;
    const std::int64_t cut = std::max<std::int64_t>(total, 0);
    crop.before[s] = auto_pad == "SAME_UPPER" ? cut / 2 : cut - cut / 2;
    crop.after[s] = cut - crop.before[s];
  }
  return crop;
}

Result<Values> import_conv_transpose(Context& c) {
  TESSERA_TRY(const Shape sizes, spatial_sizes(c.shape(0)));
  TESSERA_TRY(const Shape kernel, kernel_of(c));
  const std::size_t rank = sizes.size();
  if (kernel.size() != rank) {
    return make_error(ErrorCode::kInvalidArgument, "weights {} for an image {}",
                      to_text(c.shape(1)), to_text(c.shape(0)));
  }
  TESSERA_TRY(const Shape strides, spatial_attribute(c, "strides", rank, 1, 1));
  TESSERA_TRY(const Shape dilations, spatial_attribute(c, "dilations", rank, 1, 1));
  TESSERA_TRY(const std::int64_t group, c.integer("group", 1));
  for (std::size_t s = 0; s < rank; ++s) {
    TESSERA_TRY([[maybe_unused]] const std::int64_t a,
                checked_elements({sizes[s], strides[s]}, DType::kI8));
    TESSERA_TRY([[maybe_unused]] const std::int64_t k,
                checked_elements({kernel[s], dilations[s]}, DType::kI8));
  }
  TESSERA_TRY(const Cropping crop, read_cropping(c, sizes, kernel, strides, dilations));
  TESSERA_TRY(const ValueId y, c.b.add("conv_transpose", {c.in(0), c.in(1)},
                                       {{"strides", strides},
                                        {"dilations", dilations},
                                        {"before", crop.before},
                                        {"after", crop.after},
                                        {"output_padding", crop.output_padding},
                                        {"group", group},
                                        {"layout", std::string("nchw")}}));
  return add_bias(c, y, 2);
}

}  // namespace

std::vector<OnnxOp> convolution_rows() {
  std::vector<OnnxOp> rows = {
      {"Conv", 1, 2, 3, import_conv},
      {"ConvTranspose", 1, 2, 3, import_conv_transpose},
  };
  for (const auto part : {deform_conv_rows, integer_conv_rows}) {
    for (const OnnxOp& row : part()) rows.push_back(row);
  }
  return rows;
}

}  // namespace tessera::onnx
