// Depthwise 2-D convolution: one filter per channel.
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"
#include "tessera/te/ops/window.h"

namespace tessera::te {
namespace {

Result<Dag> make_depthwise(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  TESSERA_TRY(const std::vector<Window> win, read_windows(spec, {kHeight, kWidth}));
  const bool first = spec.words.at("layout") == "nchw";
  const std::int64_t n = spec.ints.at("N"), c = spec.ints.at("C");
  DagBuilder b(spec.op);
  const ir::Buffer x =
      b.input("X", types.in, arrange<std::int64_t>(first, n, {win[0].size, win[1].size}, {c}));
  const ir::Buffer weight = b.constant("W", types.in, {c, win[0].kernel, win[1].kernel});
  const ir::Buffer padded = pad_stage(b, x, arrange<std::string>(first, "n", {"h", "w"}, {"c"}),
                                      first_spatial(first, 1), win, ir::imm(types.in, 0));
  const NamedAxes axes = arrange<NamedAxes::value_type>(
      first, {"n", n}, {{"oh", win[0].out}, {"ow", win[1].out}}, {{"c", c}});
  const std::size_t o = first_spatial(first, 1);
  const ir::Buffer y = b.reduce(
      "Y", Reducer::kSum, axes, {{"kh", win[0].kernel}, {"kw", win[1].kernel}},
      [&](const Indices& i, const Indices& r) {
        const ir::Expr& channel = first ? i[1] : i[3];
        const ir::Expr h = win[0].position(i[o], r[0]), w = win[1].position(i[o + 1], r[1]);
        return to_type(types.acc, at(padded, arrange<ir::Expr>(first, i[0], {h, w}, {channel}))) *
               to_type(types.acc, at(weight, {channel, r[0], r[1]}));
      });
  return b.build({cast_output(b, y, types.out, axes)});
}

}  // namespace

OpEntry depthwise_op() {
  OpEntry entry{.name = "depthwise",
                .doc = "depthwise 2-D convolution",
                .params = {{"N", kRequired, "batch"},
                           {"H", kRequired, "size of the input"},
                           {"W", kRequired, "size of the input"},
                           {"C", kRequired, "channels"},
                           {"KH", kRequired, "size of the kernel"},
                           {"KW", kRequired, "size of the kernel"}},
                .words = {{"layout", {"nhwc", "nchw"}, "order of X and Y"}},
                .make = make_depthwise};
  for (const OpParam& p : window_params({kHeight, kWidth}, true)) entry.params.push_back(p);
  return entry;
}

}  // namespace tessera::te
