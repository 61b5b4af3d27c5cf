// Direct convolutions in one, two and three dimensions, grouped or not, and 2-D with blocked
// channels.
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"
#include "tessera/te/ops/window.h"
#include "tessera/te/ops/winograd.h"

namespace tessera::te {
namespace {

Result<void> check_groups(const OpSpec& spec) {
  const std::int64_t groups = spec.ints.at("G");
  for (const char* channels : {"CI", "CO"}) {
    if (spec.ints.at(channels) % groups != 0) {
      return make_error(ErrorCode::kInvalidArgument, "{}: G={} does not divide {}={}", spec.op,
                        groups, channels, spec.ints.at(channels));
    }
  }
  return {};
}

// Names of the input's dimensions: n, spatial letters and c, in memory order.
std::vector<std::string> image_axis_names(bool channels_first, const std::vector<Window>& windows) {
  std::vector<std::string> spatial;
  for (const Window& w : windows) spatial.emplace_back(w.dim.axis);
  return arrange<std::string>(channels_first, "n", spatial, {"c"});
}

struct ConvAxes {
  NamedAxes out;     // n, o*, [g,] co in memory order
  NamedAxes reduce;  // k*, ci
};

ConvAxes conv_axes(const OpSpec& spec, bool channels_first, const std::vector<Window>& windows) {
  const std::int64_t groups = spec.ints.at("G");
  NamedAxes spatial, channels;
  if (groups > 1) channels.emplace_back("g", groups);
  channels.emplace_back("co", spec.ints.at("CO") / groups);
  ConvAxes axes;
  for (const Window& w : windows) {
    spatial.emplace_back(w.out_axis(), w.out);
    axes.reduce.emplace_back(w.kernel_axis(), w.kernel);
  }
  axes.out =
      arrange<NamedAxes::value_type>(channels_first, {"n", spec.ints.at("N")}, spatial, channels);
  axes.reduce.emplace_back("ci", spec.ints.at("CI") / groups);
  return axes;
}

Result<Dag> make_direct(const OpSpec& spec, const std::vector<SpatialDim>& dims,
                        bool channels_first) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  TESSERA_DO(check_groups(spec));
  TESSERA_TRY(const std::vector<Window> windows, read_windows(spec, dims));
  const std::int64_t groups = spec.ints.at("G"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  Shape sizes, w_shape = {co, ci / groups};
  for (const Window& w : windows) {
    sizes.push_back(w.size);
    w_shape.push_back(w.kernel);
  }
  DagBuilder b(spec.op);
  const ir::Buffer x =
      b.input("X", types.in, arrange(channels_first, spec.ints.at("N"), sizes, {ci}));
  const ir::Buffer weight = b.constant("W", types.in, w_shape);
  const ir::Buffer padded =
      pad_stage(b, x, image_axis_names(channels_first, windows), first_spatial(channels_first, 1),
                windows, ir::imm(types.in, 0));
  const ConvAxes axes = conv_axes(spec, channels_first, windows);
  const std::size_t channel_dims = groups > 1 ? 2 : 1;
  const std::size_t o = first_spatial(channels_first, channel_dims);  // of the output
  const std::size_t c = channels_first ? 1 : 1 + windows.size();      // its first channel axis
  const ir::Buffer y =
      b.reduce("Y", Reducer::kSum, axes.out, axes.reduce, [&](const Indices& i, const Indices& r) {
        const ir::Expr& in_channel = r.back();
        Indices spatial;
        Indices w_index = {groups > 1 ? scaled(i[c], co / groups) + i[c + 1] : i[c], in_channel};
        for (std::size_t s = 0; s < windows.size(); ++s) {
          spatial.push_back(windows[s].position(i[o + s], r[s]));
          w_index.push_back(r[s]);
        }
        const ir::Expr x_channel = groups > 1 ? scaled(i[c], ci / groups) + in_channel : in_channel;
        const ir::Expr value =
            at(padded, arrange<ir::Expr>(channels_first, i[0], spatial, {x_channel}));
        return to_type(types.acc, value) * to_type(types.acc, at(weight, w_index));
      });
  return b.build({cast_output(b, y, types.out, axes.out)});
}

// Channels in blocks of CB: X[n, c/CB, h, w, CB], Y[n, co/CB, oh, ow, CB].
Result<Dag> make_blocked(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  TESSERA_TRY(const std::vector<Window> win, read_windows(spec, {kHeight, kWidth}));
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  if (spec.ints.count("CB") == 0) {
    return make_error(ErrorCode::kInvalidArgument, "{}: layout=nchwc needs CB, the channel block",
                      spec.op);
  }
  const std::int64_t block = spec.ints.at("CB");
  if (spec.ints.at("G") != 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: layout=nchwc takes G=1 only", spec.op);
  }
  if (ci % block != 0 || co % block != 0) {
    return make_error(ErrorCode::kInvalidArgument, "{}: CB={} must divide CI={} and CO={}", spec.op,
                      block, ci, co);
  }
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, ci / block, win[0].size, win[1].size, block});
  const ir::Buffer weight = b.constant("W", types.in, {co, ci, win[0].kernel, win[1].kernel});
  const ir::Buffer padded =
      pad_stage(b, x, {"n", "cb", "h", "w", "c"}, 2, win, ir::imm(types.in, 0));
  const NamedAxes axes = {
      {"n", n}, {"cob", co / block}, {"oh", win[0].out}, {"ow", win[1].out}, {"co", block}};
  const NamedAxes reduce = {
      {"cib", ci / block}, {"kh", win[0].kernel}, {"kw", win[1].kernel}, {"ci", block}};
  const ir::Buffer y =
      b.reduce("Y", Reducer::kSum, axes, reduce, [&](const Indices& i, const Indices& r) {
        const ir::Expr value = at(
            padded, {i[0], r[0], win[0].position(i[2], r[1]), win[1].position(i[3], r[2]), r[3]});
        const ir::Expr w =
            at(weight, {scaled(i[1], block) + i[4], scaled(r[0], block) + r[3], r[1], r[2]});
        return to_type(types.acc, value) * to_type(types.acc, w);
      });
  return b.build({cast_output(b, y, types.out, axes)});
}

Result<Dag> make_conv2d(const OpSpec& spec) {
  const std::string& layout = spec.words.at("layout");
  if (spec.words.at("algo") != "direct") return make_winograd(spec);
  if (layout == "nchwc") return make_blocked(spec);
  return make_direct(spec, {kHeight, kWidth}, layout == "nchw");
}

Result<Dag> make_conv1d(const OpSpec& spec) {
  return make_direct(spec, {kWidth}, spec.words.at("layout") == "ncw");
}

Result<Dag> make_conv3d(const OpSpec& spec) {
  return make_direct(spec, {kDepth, kHeight, kWidth}, spec.words.at("layout") == "ncdhw");
}

std::vector<OpParam> conv_params(const std::vector<SpatialDim>& dims) {
  std::vector<OpParam> params = {{"N", kRequired, "batch"}};
  for (const SpatialDim& dim : dims) params.push_back({dim.size, kRequired, "size of the input"});
  params.push_back({"CI", kRequired, "input channels"});
  params.push_back({"CO", kRequired, "output channels"});
  for (const SpatialDim& dim : dims)
    params.push_back({dim.kernel, kRequired, "size of the kernel"});
  for (const OpParam& p : window_params(dims, true)) params.push_back(p);
  params.push_back({"G", 1, "groups"});
  return params;
}

}  // namespace

OpEntry conv1d_op() {
  return {.name = "conv1d",
          .doc = "1-D convolution",
          .params = conv_params({kWidth}),
          .words = {{"layout", {"nwc", "ncw"}, "order of X and Y"}},
          .make = make_conv1d};
}

OpEntry conv2d_op() {
  OpEntry entry{.name = "conv2d",
                .doc = "2-D convolution",
                .params = conv_params({kHeight, kWidth}),
                .words = {{"layout", {"nhwc", "nchw", "nchwc"}, "order of X and Y"},
                          {"algo", {"direct", "winograd2", "winograd4", "winograd6"}, "algorithm"}},
                .make = make_conv2d};
  entry.params.push_back({"CB", kDerived, "channel block of layout=nchwc"});
  return entry;
}

OpEntry conv3d_op() {
  return {.name = "conv3d",
          .doc = "3-D convolution",
          .params = conv_params({kDepth, kHeight, kWidth}),
          .words = {{"layout", {"ndhwc", "ncdhw"}, "order of X and Y"}},
          .make = make_conv3d};
}

}  // namespace tessera::te
