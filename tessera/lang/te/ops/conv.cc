// Direct convolutions in one, two and three dimensions, grouped or not, and 2-D with blocked
// channels.
#include "tessera/lang/te/ops/conv.h"

#include "tessera/lang/te/ops/columns.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"
#include "tessera/lang/te/ops/winograd.h"

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

Result<Dag> make_direct(const OpSpec& spec, const std::vector<SpatialDim>& dims,
                        bool channels_first) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  TESSERA_DO(check_groups(spec));
  TESSERA_TRY(const std::vector<Window> windows, read_windows(spec, dims));
  const ConvParams params{
      .windows = windows, .groups = spec.ints.at("G"), .channels_first = channels_first};
  const std::int64_t ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  Shape sizes, w_shape = {co, ci / params.groups};
  for (const Window& w : windows) {
    sizes.push_back(w.size);
    w_shape.push_back(w.kernel);
  }
  DagBuilder b(spec.op);
  const ir::Buffer x =
      b.input("X", types.in, arrange(channels_first, spec.ints.at("N"), sizes, {ci}));
  const ir::Buffer weight = b.constant("W", types.in, w_shape);
  const ir::Buffer padded = pad_stage(b, "pad", x, channels_first, windows, ir::imm(types.in, 0));
  const Stage y = conv_stage(b, "Y", padded, weight, params, types.acc);
  return b.build({cast_output(b, y.buffer, types.out, y.axes)});
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
      pad_stage(b, "pad", x, {"n", "cb", "h", "w", "c"}, 2, {win[0].pad_lo, win[1].pad_lo},
                {win[0].pad_hi, win[1].pad_hi}, ir::imm(types.in, 0));
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
  if (winograd_tile(spec) > 0) return make_winograd(spec);
  if (spec.words.at("algo") == kColumnsAlgorithm) return make_columns(spec);
  if (layout == "nchwc") return make_blocked(spec);
  return make_direct(spec, {kHeight, kWidth}, layout == "nchw");
}

Result<Dag> make_conv1d(const OpSpec& spec) {
  return make_direct(spec, {kWidth}, spec.words.at("layout") == "ncw");
}

Result<Dag> make_conv3d(const OpSpec& spec) {
  return make_direct(spec, {kDepth, kHeight, kWidth}, spec.words.at("layout") == "ncdhw");
}

std::vector<const char*> algorithm_names() {
  std::vector<const char*> names;
  for (const ConvAlgorithm& a : conv_algorithms()) names.push_back(a.name);
  names.push_back(kColumnsAlgorithm);
  return names;
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

Stage conv_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                 const ir::Buffer& weight, const ConvParams& params, DType acc) {
  const std::vector<Window>& windows = params.windows;
  const bool first = params.channels_first, grouped = params.groups > 1;
  const std::int64_t co = weight->shape[0] / params.groups, ci = weight->shape[1];
  NamedAxes spatial, channels, reduce;
  for (const Window& w : windows) {
    spatial.emplace_back(w.out_axis(), w.out);
    reduce.emplace_back(w.kernel_axis(), w.kernel);
  }
  if (grouped) channels.emplace_back("g", params.groups);
  channels.emplace_back("co", co);
  reduce.emplace_back("ci", ci);
  Stage stage;
  stage.axes = arrange<NamedAxes::value_type>(first, {"n", padded->shape[0]}, spatial, channels);
  const std::size_t o = first_spatial(first, channels.size());
  const std::size_t c = first ? 1 : 1 + windows.size();  // the first channel axis
  stage.buffer =
      b.reduce(name, Reducer::kSum, stage.axes, reduce, [&](const Indices& i, const Indices& r) {
        const ir::Expr& in_channel = r.back();
        Indices position;
        Indices w_index = {grouped ? scaled(i[c], co) + i[c + 1] : i[c], in_channel};
        for (std::size_t s = 0; s < windows.size(); ++s) {
          position.push_back(windows[s].position(i[o + s], r[s]));
          w_index.push_back(r[s]);
        }
        const ir::Expr x_channel = grouped ? scaled(i[c], ci) + in_channel : in_channel;
        const ir::Expr value =
            at(padded, arrange<ir::Expr>(params.image_first(), i[0], position, {x_channel}));
        return to_type(acc, value) * to_type(acc, at(weight, w_index));
      });
  return stage;
}

ir::Buffer merge_groups(DagBuilder& b, const std::string& name, const Stage& from,
                        const ConvParams& params, DType out) {
  if (params.groups == 1) return cast_output(b, from.buffer, out, from.axes, name);
  const std::size_t c = params.channels_first ? 1 : 1 + params.windows.size();
  const auto at_group = [&](auto& items, std::size_t k) {
    return items.begin() + static_cast<std::ptrdiff_t>(c + k);
  };
  NamedAxes axes = from.axes;
  const std::int64_t co = axes[c + 1].second;
  axes[c + 1].second *= params.groups;
  axes.erase(at_group(axes, 0));
  return b.compute(name, axes, [&](const Indices& i) {
    Indices grouped = i;
    grouped[c] = ir::floor_div(i[c], ir::int_imm(co));
    grouped.insert(at_group(grouped, 1), ir::floor_mod(i[c], ir::int_imm(co)));
    return to_type(out, at(from.buffer, grouped));
  });
}

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
                          {"algo", algorithm_names(), "algorithm"}},
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
