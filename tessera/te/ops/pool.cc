// Max, average and global average pooling.
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"
#include "tessera/te/ops/window.h"

namespace tessera::te {
namespace {

struct Pool {
  bool channels_first;
  std::vector<Window> win;
  NamedAxes axes;    // of the output
  NamedAxes reduce;  // kh, kw
  ir::Buffer padded;

  ir::Expr element(const Indices& i, const Indices& r) const {
    const std::size_t o = first_spatial(channels_first, 1);
    const ir::Expr h = win[0].position(i[o], r[0]), w = win[1].position(i[o + 1], r[1]);
    return at(padded,
              arrange<ir::Expr>(channels_first, i[0], {h, w}, {channels_first ? i[1] : i[3]}));
  }
};

// Declares X and pads it.
Result<Pool> make_pool(DagBuilder& b, const OpSpec& spec, DType dtype, const ir::Expr& fill) {
  TESSERA_TRY(std::vector<Window> win, read_windows(spec, {kHeight, kWidth}));
  for (const Window& w : win) {
    // A window inside the padding would have nothing to pool.
    if (w.pad_lo >= w.kernel || w.pad_hi >= w.kernel) {
      return make_error(ErrorCode::kInvalidArgument, "{}: padding must be less than {}={}", spec.op,
                        w.dim.kernel, w.kernel);
    }
  }
  const bool first = spec.words.at("layout") == "nchw";
  const std::int64_t n = spec.ints.at("N"), c = spec.ints.at("C");
  const ir::Buffer x =
      b.input("X", dtype, arrange<std::int64_t>(first, n, {win[0].size, win[1].size}, {c}));
  Pool pool{first, win, {}, {{"kh", win[0].kernel}, {"kw", win[1].kernel}}, {}};
  pool.axes = arrange<NamedAxes::value_type>(first, {"n", n},
                                             {{"oh", win[0].out}, {"ow", win[1].out}}, {{"c", c}});
  pool.padded = pad_stage(b, x, arrange<std::string>(first, "n", {"h", "w"}, {"c"}),
                          first_spatial(first, 1), win, fill);
  return pool;
}

Result<Dag> make_maxpool(const OpSpec& spec) {
  if (!is_float(spec.dtype) && !is_int(spec.dtype)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: dtype={} is not supported", spec.op,
                      to_text(spec.dtype));
  }
  DagBuilder b(spec.op);
  TESSERA_TRY(const Pool pool,
              make_pool(b, spec, spec.dtype, identity(Reducer::kMax, spec.dtype, 0)));
  return b.build(
      {b.reduce("Y", Reducer::kMax, pool.axes, pool.reduce,
                [&](const Indices& i, const Indices& r) { return pool.element(i, r); })});
}

// Elements of the input (not of its padding) under the window of output o, as a float.
ir::Expr covered(const Window& w, const ir::Expr& o, DType acc) {
  const ir::Expr start = scaled(o, w.stride);
  const ir::Expr end = ir::min(start + w.kernel, ir::int_imm(w.pad_lo + w.size));
  return ir::cast(acc, end - ir::max(start, ir::int_imm(w.pad_lo)));
}

Result<Dag> make_avgpool(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  DagBuilder b(spec.op);
  TESSERA_TRY(const Pool pool, make_pool(b, spec, types.in, ir::imm(types.in, 0)));
  const ir::Buffer sum = b.reduce(
      "sum", Reducer::kSum, pool.axes, pool.reduce,
      [&](const Indices& i, const Indices& r) { return to_type(types.acc, pool.element(i, r)); });
  const bool pads =
      pool.win[0].padded() > pool.win[0].size || pool.win[1].padded() > pool.win[1].size;
  const bool whole = !pads || spec.words.at("include_pad") == "yes";
  const std::size_t o = first_spatial(pool.channels_first, 1);
  const ir::Buffer y = b.compute("Y", pool.axes, [&](const Indices& i) {
    const double window =
        static_cast<double>(pool.win[0].kernel) * static_cast<double>(pool.win[1].kernel);
    const ir::Expr count =
        whole ? ir::imm(types.acc, window)
              : covered(pool.win[0], i[o], types.acc) * covered(pool.win[1], i[o + 1], types.acc);
    return to_type(types.out, ir::div(at(sum, i), count));
  });
  return b.build({y});
}

Result<Dag> make_globalavgpool(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  const bool first = spec.words.at("layout") == "nchw";
  const std::int64_t n = spec.ints.at("N"), h = spec.ints.at("H"), w = spec.ints.at("W"),
                     c = spec.ints.at("C");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, arrange<std::int64_t>(first, n, {h, w}, {c}));
  const NamedAxes axes = {{"n", n}, {"c", c}};
  const ir::Buffer sum = b.reduce(
      "sum", Reducer::kSum, axes, {{"h", h}, {"w", w}}, [&](const Indices& i, const Indices& r) {
        return to_type(types.acc, at(x, arrange<ir::Expr>(first, i[0], {r[0], r[1]}, {i[1]})));
      });
  const double count = static_cast<double>(h) * static_cast<double>(w);
  const ir::Buffer y = b.compute("Y", axes, [&](const Indices& i) {
    return to_type(types.out, ir::div(at(sum, i), ir::imm(types.acc, count)));
  });
  return b.build({y});
}

std::vector<OpParam> pool_params(bool windows) {
  std::vector<OpParam> params = {{"N", kRequired, "batch"},
                                 {"H", kRequired, "size of the input"},
                                 {"W", kRequired, "size of the input"},
                                 {"C", kRequired, "channels"}};
  if (!windows) return params;
  params.push_back({"KH", kRequired, "size of the window"});
  params.push_back({"KW", kRequired, "size of the window"});
  for (const OpParam& p : window_params({kHeight, kWidth}, false)) params.push_back(p);
  return params;
}

OpWord layout_word() { return {"layout", {"nhwc", "nchw"}, "order of X and Y"}; }

}  // namespace

OpEntry maxpool2d_op() {
  return {.name = "maxpool2d",
          .doc = "2-D max pooling",
          .params = pool_params(true),
          .words = {layout_word()},
          .make = make_maxpool};
}

OpEntry avgpool2d_op() {
  return {.name = "avgpool2d",
          .doc = "2-D average pooling",
          .params = pool_params(true),
          .words = {layout_word(),
                    {"include_pad", {"no", "yes"}, "whether padding counts in the average"}},
          .make = make_avgpool};
}

OpEntry globalavgpool_op() {
  return {.name = "globalavgpool",
          .doc = "average over height and width; Y[n, c]",
          .params = pool_params(false),
          .words = {layout_word()},
          .make = make_globalavgpool};
}

}  // namespace tessera::te
