// Depthwise 2-D convolution: one filter per channel.
#include "tessera/lang/te/ops/conv.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"

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
  const ir::Buffer padded = pad_stage(b, "pad", x, first, win, ir::imm(types.in, 0));
  const Stage y = depthwise_stage(b, "Y", padded, weight, {win, 1, first}, types.acc);
  return b.build({cast_output(b, y.buffer, types.out, y.axes)});
}

}  // namespace

Stage depthwise_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                      const ir::Buffer& weight, const ConvParams& params, DType acc) {
  const std::vector<Window>& windows = params.windows;
  const bool first = params.channels_first;
  const bool unit_axis = weight->shape.size() == windows.size() + 2;  // of weight[c, 1, k...]
  const std::size_t c = first ? 1 : 1 + windows.size();
  const std::size_t o = first_spatial(first, 1);
  NamedAxes spatial, reduce;
  for (const Window& w : windows) {
    spatial.emplace_back(w.out_axis(), w.out);
    reduce.emplace_back(w.kernel_axis(), w.kernel);
  }
  Stage stage;
  stage.axes = arrange<NamedAxes::value_type>(first, {"n", padded->shape[0]}, spatial,
                                              {{"c", weight->shape[0]}});
  stage.buffer =
      b.reduce(name, Reducer::kSum, stage.axes, reduce, [&](const Indices& i, const Indices& r) {
        Indices position, w_index = {i[c]};
        if (unit_axis) w_index.push_back(ir::int_imm(0));
        for (std::size_t s = 0; s < windows.size(); ++s) {
          position.push_back(windows[s].position(i[o + s], r[s]));
          w_index.push_back(r[s]);
        }
        const ir::Expr value = at(padded, arrange<ir::Expr>(first, i[0], position, {i[c]}));
        return to_type(acc, value) * to_type(acc, at(weight, w_index));
      });
  return stage;
}

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
