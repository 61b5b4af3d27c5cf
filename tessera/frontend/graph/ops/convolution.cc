// Convolutions: conv, conv_transpose and both by Winograd; columns, the matrix of their windows.
#include "tessera/frontend/graph/ops/image.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/columns.h"
#include "tessera/lang/te/ops/conv.h"
#include "tessera/lang/te/ops/conv_transpose.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"
#include "tessera/support/invalid.h"

namespace tessera::graph {
namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;

// An image, its weights [.., .., k...] and the number of groups.
struct Operands {
  Image image;
  Shape kernel;
  std::int64_t groups = 1;
  te::ElementTypes types{};
};

Result<Operands> read_operands(const NodeView& node) {
  Operands ops;
  TESSERA_TRY(ops.image, read_image(node));
  const Shape& w = node.shape(1);
  if (w.size() != node.shape(0).size()) {
    return invalid("an image of rank {} and weights of rank {}", node.shape(0).size(), w.size());
  }
  ops.kernel = Shape(w.begin() + 2, w.end());
  ops.groups = node.attrs.integer("group", 1);
  if (ops.groups < 1) return invalid("{} groups", ops.groups);
  TESSERA_TRY(ops.types, te::product_types(node.dtype(0), node.dtype(1)));
  return ops;
}

struct Conv {
  Operands ops;
  te::ConvParams params;
  std::int64_t co = 0;
  bool depthwise = false;  // one filter per channel
};

Result<Conv> read_conv(const NodeView& node) {
  Conv conv;
  TESSERA_TRY(conv.ops, read_operands(node));
  const Operands& ops = conv.ops;
  const Shape& w = node.shape(1);
  conv.co = w[0];
  const std::int64_t ci = ops.image.c;
  if (ci % ops.groups != 0 || conv.co % ops.groups != 0 || w[1] != ci / ops.groups) {
    return invalid("weights {} do not fit {} channels in {} groups", tessera::to_text(w), ci,
                   ops.groups);
  }
  conv.params.groups = ops.groups;
  conv.params.channels_first = node.attrs.word("layout") == "nchw";
  conv.params.reads_first = ops.image.channels_first;
  TESSERA_TRY(conv.params.windows, read_windows(node, ops.image, ops.kernel));
  conv.depthwise = w[1] == 1 && conv.co == ci;
  if (conv.depthwise && conv.params.reads_first != conv.params.channels_first) {
    return invalid("a depthwise convolution that turns its image");
  }
  return conv;
}

Result<Types> infer_conv(const NodeView& node) {
  TESSERA_TRY(const Conv conv, read_conv(node));
  const Shape out = te::arrange(conv.params.channels_first, conv.ops.image.n,
                                output_sizes(conv.params.windows), {conv.co});
  return Types{{conv.ops.types.out, out}};
}

Result<Buffers> define_conv(te::DagBuilder& b, const std::string& name, const NodeView& node,
                            const Buffers& in) {
  TESSERA_TRY(Conv conv, read_conv(node));
  te::ConvParams& params = conv.params;
  const te::ElementTypes& types = conv.ops.types;
  params.windows = without_unread_padding(std::move(params.windows));
  if (conv.depthwise) params.groups = 1;
  const ir::Buffer padded = te::pad_stage(b, name + ".pad", in[0], params.image_first(),
                                          params.windows, ir::imm(in[0]->dtype, 0));
  const bool one_stage = params.groups == 1 && types.acc == types.out;
  const std::string sum = one_stage ? name : name + ".acc";
  const te::Stage y = (conv.depthwise ? te::depthwise_stage : te::conv_stage)(b, sum, padded, in[1],
                                                                              params, types.acc);
  return Buffers{te::merge_groups(b, name, y, params, types.out)};
}

Result<void> check_transformed(const NodeView& node, bool fits) {
  if (!fits) {
    return invalid("an image {} and transformed weights {}", tessera::to_text(node.shape(0)),
                   tessera::to_text(node.shape(1)));
  }
  if (!is_float(node.dtype(0)) || node.dtype(1) != compute_type(node.dtype(0))) {
    return invalid("an image of {} and transformed weights of {}", to_text(node.dtype(0)),
                   to_text(node.dtype(1)));
  }
  return {};
}

// The windows of the kernel, stride 1, after that along the depth if there is one.
Result<std::vector<te::Window>> read_winograd(const NodeView& node) {
  const Shape& x = node.shape(0);
  const Shape& u = node.shape(1);
  const std::int64_t m = node.attrs.integer("m");
  if (m != 2 && m != 4 && m != 6) return invalid("m = {} is not 2, 4 or 6", m);
  const std::size_t rank = x.size();
  const bool ranks = (rank == 4 || rank == 5) && u.size() == rank;
  const auto taps = [&](std::size_t axis) { return u[axis] == 1 ? 1 : u[axis] - m + 1; };
  TESSERA_DO(check_transformed(
      node, ranks && te::has_winograd(taps(0), taps(1), m) && u[rank - 2] == x.back()));
  Shape kernel = {taps(0), taps(1)};
  if (rank == 5) kernel.insert(kernel.begin(), u[2]);
  return read_windows(node, Image{false, x[0], x.back(), Shape(x.begin() + 1, x.end() - 1)},
                      kernel);
}

Result<Types> infer_winograd(const NodeView& node) {
  TESSERA_TRY(const std::vector<te::Window> windows, read_winograd(node));
  Shape out = {node.shape(0)[0]};
  for (const te::Window& w : windows) out.push_back(w.out);
  out.push_back(node.shape(1).back());
  return Types{{node.dtype(0), out}};
}

Result<Buffers> define_winograd(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                const Buffers& in) {
  TESSERA_TRY(const std::vector<te::Window> windows, read_winograd(node));
  TESSERA_TRY(ir::Buffer y, te::winograd_stages(b, name + ".", name, in[0], in[1], windows,
                                                node.attrs.integer("m"), node.dtype(0)));
  return Buffers{std::move(y)};
}

Result<std::vector<te::Window>> read_columns(const NodeView& node) {
  TESSERA_TRY(const Image image, read_image(node));
  if (image.channels_first) return invalid("columns of an image whose channels come first");
  const Shape& window = node.attrs.integers("window");
  if (window.size() != image.spatial.size()) {
    return invalid("a window of rank {} over an image of rank {}", window.size(),
                   image.spatial.size() + 2);
  }
  return read_windows(node, image, window);
}

Result<Types> infer_columns(const NodeView& node) {
  TESSERA_TRY(const std::vector<te::Window> windows, read_columns(node));
  const Shape& x = node.shape(0);
  return Types{{node.dtype(0), te::columns_shape(windows, x[0], x.back())}};
}

Result<Buffers> define_columns(te::DagBuilder& b, const std::string& name, const NodeView& node,
                               const Buffers& in) {
  TESSERA_TRY(const std::vector<te::Window> windows, read_columns(node));
  return Buffers{te::columns_stage(b, name, in[0], windows)};
}

struct ConvTranspose {
  Operands ops;
  te::ConvTransposeParams params;
  std::int64_t co = 0;  // of all groups
};

Result<std::vector<te::TransposedWindow>> read_transposed(const NodeView& node, const Shape& sizes,
                                                          const Shape& kernel) {
  const std::size_t rank = sizes.size();
  TESSERA_DO(check_range("a kernel of size", kernel, 1));
  TESSERA_TRY(const Shape strides, spatial_attribute(node, "strides", rank, 1, 1));
  TESSERA_TRY(const Shape dilations, spatial_attribute(node, "dilations", rank, 1, 1));
  TESSERA_TRY(const Shape before, spatial_attribute(node, "before", rank, 0, 0));
  TESSERA_TRY(const Shape after, spatial_attribute(node, "after", rank, 0, 0));
  TESSERA_TRY(const Shape extra, spatial_attribute(node, "output_padding", rank, 0, 0));
  const std::vector<std::string> axes = spatial_axes(rank);
  std::vector<te::TransposedWindow> windows;
  for (std::size_t s = 0; s < rank; ++s) {
    te::TransposedWindow window{.axis = axes[s],
                                .size = sizes[s],
                                .kernel = kernel[s],
                                .stride = strides[s],
                                .dilation = dilations[s],
                                .pad_lo = before[s]};
    TESSERA_TRY([[maybe_unused]] const std::int64_t small,
                checked_elements({window.size, window.stride}, DType::kI8));
    const std::int64_t full =
        (window.size - 1) * window.stride + (window.kernel - 1) * window.dilation + 1 + extra[s];
    window.out = full - before[s] - after[s];
    if (window.size < 1 || window.out < 0) {
      return invalid("cropping {} and {} of {} leaves no output in dimension {}", before[s],
                     after[s], full, axes[s]);
    }
    windows.push_back(std::move(window));
  }
  return windows;
}

Result<ConvTranspose> read_conv_transpose(const NodeView& node) {
  ConvTranspose conv;
  TESSERA_TRY(conv.ops, read_operands(node));
  const Operands& ops = conv.ops;
  const Shape& w = node.shape(1);
  if (w[0] != ops.image.c || w[0] % ops.groups != 0) {
    return invalid("weights {} do not fit {} channels in {} groups", tessera::to_text(w),
                   ops.image.c, ops.groups);
  }
  TESSERA_TRY([[maybe_unused]] const std::int64_t fits,
              checked_elements({w[1], ops.groups}, DType::kI8));
  conv.co = w[1] * ops.groups;
  conv.params.groups = ops.groups;
  conv.params.channels_first = ops.image.channels_first;
  conv.params.gathered = node.attrs.integer("gathered", 0) != 0;
  TESSERA_TRY(conv.params.windows, read_transposed(node, ops.image.spatial, ops.kernel));
  const auto dilated = [](const te::TransposedWindow& window) { return window.dilation != 1; };
  const auto& windows = conv.params.windows;
  if (conv.params.gathered && (conv.params.channels_first || conv.params.groups > 1 ||
                               std::any_of(windows.begin(), windows.end(), dilated))) {
    return invalid("gathered positions of an image with channels first, groups or dilation");
  }
  return conv;
}

Result<Types> infer_conv_transpose(const NodeView& node) {
  TESSERA_TRY(const ConvTranspose conv, read_conv_transpose(node));
  Shape sizes;
  for (const te::TransposedWindow& w : conv.params.windows) sizes.push_back(w.out);
  return Types{{conv.ops.types.out, conv.ops.image.shape(sizes, conv.co)}};
}

Result<Buffers> define_conv_transpose(te::DagBuilder& b, const std::string& name,
                                      const NodeView& node, const Buffers& in) {
  TESSERA_TRY(const ConvTranspose conv, read_conv_transpose(node));
  const te::ElementTypes& types = conv.ops.types;
  const te::ConvTransposeNames names{name + ".pad", name + ".phases", name, name + ".gathered"};
  return Buffers{
      te::conv_transpose_stages(b, names, in[0], in[1], conv.params, types.acc, types.out)};
}

// The kernel is an attribute: its transformed weights u[ry, rx, eps, nu, ci, co] do not say it.
Result<std::vector<te::TransposedWindow>> read_transposed_winograd(const NodeView& node) {
  const Shape& x = node.shape(0);
  const Shape& u = node.shape(1);
  const std::int64_t m = node.attrs.integer("m");
  TESSERA_DO(check_transformed(node, x.size() == 4 && u.size() == 6 && u[4] == x[3]));
  const Shape& kernel = node.attrs.integers("kernel");
  if (kernel.size() != 2) return invalid("a kernel of rank {}", kernel.size());
  TESSERA_TRY(std::vector<te::TransposedWindow> windows,
              read_transposed(node, {x[1], x[2]}, kernel));
  if (!te::has_winograd(windows, m)) {
    return invalid("a kernel {} without tiles of {}", tessera::to_text(kernel), m);
  }
  const Shape weights =
      te::winograd_weights_shape({u[4], u[5], kernel[0], kernel[1]}, windows, static_cast<int>(m));
  TESSERA_DO(check_transformed(node, u == weights));
  return windows;
}

Result<Types> infer_transposed_winograd(const NodeView& node) {
  TESSERA_TRY(const std::vector<te::TransposedWindow> windows, read_transposed_winograd(node));
  return Types{
      {node.dtype(0), {node.shape(0)[0], windows[0].out, windows[1].out, node.shape(1).back()}}};
}

Result<Buffers> define_transposed_winograd(te::DagBuilder& b, const std::string& name,
                                           const NodeView& node, const Buffers& in) {
  TESSERA_TRY(const std::vector<te::TransposedWindow> windows, read_transposed_winograd(node));
  TESSERA_TRY(ir::Buffer y, te::winograd_stages(b, name + ".", name, in[0], in[1], windows,
                                                node.attrs.integer("m"), node.dtype(0)));
  return Buffers{std::move(y)};
}

}  // namespace

std::vector<OpDef> convolution_ops() {
  return {
      {"columns", Fusion::kInjective, infer_columns, define_columns},
      with(fact::kKeepsAxes | fact::kImages | fact::kConvolves,
           {"conv", Fusion::kContraction, infer_conv, define_conv}),
      with(fact::kKeepsAxes | fact::kImages | fact::kConvolves | fact::kTransposed,
           {"conv_transpose", Fusion::kContraction, infer_conv_transpose, define_conv_transpose}),
      {"conv_transpose_winograd", Fusion::kContraction, infer_transposed_winograd,
       define_transposed_winograd},
      {"conv_winograd", Fusion::kContraction, infer_winograd, define_winograd},
  };
}

}  // namespace tessera::graph
