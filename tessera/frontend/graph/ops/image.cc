#include "tessera/frontend/graph/ops/image.h"

#include <algorithm>

namespace tessera::graph {

Result<void> check_range(const char* what, const Shape& values, std::int64_t min) {
  constexpr std::int64_t kMax = (std::int64_t{1} << 31) - 1;
  for (const std::int64_t v : values) {
    if (v < min || v > kMax) {
      return make_error(ErrorCode::kInvalidArgument, "{} {} is outside {}..{}", what, v, min, kMax);
    }
  }
  return {};
}

Result<Image> read_image(const NodeView& node) {
  const Shape& shape = node.shape(0);
  if (shape.size() < 3) {
    return make_error(ErrorCode::kInvalidArgument,
                      "an image needs a batch, channels and a size, but the shape is {}",
                      tessera::to_text(shape));
  }
  const std::string& layout = node.attrs.word(node.attrs.has("reads") ? "reads" : "layout");
  if (layout != "nchw" && layout != "nhwc") {
    return make_error(ErrorCode::kInvalidArgument, "layout {} is not nchw or nhwc", layout);
  }
  const bool first = layout == "nchw";
  const auto begin = shape.begin() + (first ? 2 : 1);
  const auto end = begin + static_cast<std::ptrdiff_t>(shape.size() - 2);
  return Image{first, shape[0], first ? shape[1] : shape.back(), Shape(begin, end)};
}

std::vector<std::string> spatial_axes(std::size_t rank) {
  if (rank == 1) return {"w"};
  if (rank == 2) return {"h", "w"};
  if (rank == 3) return {"d", "h", "w"};
  std::vector<std::string> names;
  for (std::size_t s = 0; s < rank; ++s) names.push_back(fmt::format("s{}", s));
  return names;
}

Result<Shape> spatial_attribute(const NodeView& node, const char* name, std::size_t rank,
                                std::int64_t min, std::int64_t absent) {
  if (!node.attrs.has(name)) return Shape(rank, absent);
  const Shape& values = node.attrs.integers(name);
  if (values.size() != rank) {
    return make_error(ErrorCode::kInvalidArgument, "{} has {} values for {} spatial dimensions",
                      name, values.size(), rank);
  }
  TESSERA_DO(check_range(name, values, min));
  return values;
}

Result<std::vector<te::Window>> read_windows(const NodeView& node, const Image& image,
                                             const Shape& kernel) {
  const std::size_t rank = image.spatial.size();
  TESSERA_TRY(const Shape strides, spatial_attribute(node, "strides", rank, 1, 1));
  TESSERA_TRY(const Shape dilations, spatial_attribute(node, "dilations", rank, 1, 1));
  TESSERA_TRY(const Shape before, spatial_attribute(node, "before", rank, 0, 0));
  TESSERA_TRY(const Shape after, spatial_attribute(node, "after", rank, 0, 0));
  TESSERA_DO(check_range("a kernel of size", kernel, 1));
  const std::vector<std::string> axes = spatial_axes(rank);
  std::vector<te::Window> windows;
  for (std::size_t s = 0; s < rank; ++s) {
    te::Window w{.axis = axes[s],
                 .size = image.spatial[s],
                 .kernel = kernel[s],
                 .stride = strides[s],
                 .dilation = dilations[s],
                 .pad_lo = before[s],
                 .pad_hi = after[s]};
    if (w.reach() > w.padded()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "the kernel covers {} elements of dimension {}, which has only {} with "
                        "its padding",
                        w.reach(), w.axis, w.padded());
    }
    w.out = (w.padded() - w.reach()) / w.stride + 1;
    windows.push_back(std::move(w));
  }
  return windows;
}

std::vector<te::Window> without_unread_padding(std::vector<te::Window> windows) {
  for (te::Window& w : windows) {
    const std::int64_t read = (w.out - 1) * w.stride + w.reach() - w.pad_lo - w.size;
    w.pad_hi = std::clamp<std::int64_t>(read, 0, w.pad_hi);
  }
  return windows;
}

Shape output_sizes(const std::vector<te::Window>& windows) {
  Shape sizes;
  for (const te::Window& w : windows) sizes.push_back(w.out);
  return sizes;
}

}  // namespace tessera::graph
