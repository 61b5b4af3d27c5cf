// Max, average and global average pooling.
#include "tessera/lang/te/ops/pool.h"

#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {
namespace {

// Elements of the counted range under the window of output o, as a float.
ir::Expr covered(const Window& w, const CountedRange& range, const ir::Expr& o, DType acc) {
  const ir::Expr start = scaled(o, w.stride);
  if (w.dilation == 1 && w.kernel > range.begin && w.padded() - range.end < w.kernel) {
    const ir::Expr end = ir::min(start + w.kernel, ir::int_imm(range.end));
    return ir::cast(acc, end - ir::max(start, ir::int_imm(range.begin)));
  }
  const ir::Expr step = ir::int_imm(w.dilation), none = ir::int_imm(0);
  const auto before = [&](std::int64_t end) {  // window elements k with start + k * dilation < end
    const ir::Expr k = ir::floor_div(ir::int_imm(end + w.dilation - 1) - start, step);
    return ir::min(ir::max(k, none), ir::int_imm(w.kernel));
  };
  // At least one: a window without any element has a sum of zero.
  return ir::cast(acc, ir::max(before(range.end) - before(range.begin), ir::int_imm(1)));
}

struct Pool {
  bool channels_first = false;
  std::vector<Window> windows;
  ir::Buffer padded;
};

// Declares X and pads it.
Result<Pool> make_pool(DagBuilder& b, const OpSpec& spec, DType dtype, const ir::Expr& fill) {
  const std::vector<SpatialDim> dims = {kHeight, kWidth};
  TESSERA_TRY(const std::vector<Window> win, read_windows(spec, dims));
  for (std::size_t s = 0; s < win.size(); ++s) {
    // A window inside the padding would have nothing to pool.
    if (win[s].pad_lo >= win[s].kernel || win[s].pad_hi >= win[s].kernel) {
      return make_error(ErrorCode::kInvalidArgument, "{}: padding must be less than {}={}", spec.op,
                        dims[s].kernel, win[s].kernel);
    }
  }
  const bool first = spec.words.at("layout") == "nchw";
  const ir::Buffer x =
      b.input("X", dtype,
              arrange<std::int64_t>(first, spec.ints.at("N"), {win[0].size, win[1].size},
                                    {spec.ints.at("C")}));
  return Pool{first, win, pad_stage(b, "pad", x, first, win, fill)};
}

Result<Dag> make_maxpool(const OpSpec& spec) {
  if (!is_float(spec.dtype) && !is_int(spec.dtype)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: dtype={} is not supported", spec.op,
                      to_text(spec.dtype));
  }
  DagBuilder b(spec.op);
  TESSERA_TRY(const Pool pool,
              make_pool(b, spec, spec.dtype, identity(Reducer::kMax, spec.dtype, 0)));
  const Stage y = window_stage(b, "Y", Reducer::kMax, pool.padded, pool.channels_first,
                               pool.windows, spec.dtype);
  return b.build({y.buffer});
}

Result<Dag> make_avgpool(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  DagBuilder b(spec.op);
  TESSERA_TRY(const Pool pool, make_pool(b, spec, types.in, ir::imm(types.in, 0)));
  const Stage sum = window_stage(b, "sum", Reducer::kSum, pool.padded, pool.channels_first,
                                 pool.windows, types.acc);
  std::vector<CountedRange> counted;
  for (const Window& w : pool.windows) {
    const bool all = spec.words.at("include_pad") == "yes";
    counted.push_back(all ? CountedRange{0, w.padded()}
                          : CountedRange{w.pad_lo, w.pad_lo + w.size});
  }
  return b.build(
      {average_stage(b, "Y", sum, pool.channels_first, pool.windows, counted, types.out)});
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

ir::Buffer average_stage(DagBuilder& b, const std::string& name, const Stage& sum,
                         bool channels_first, const std::vector<Window>& windows,
                         const std::vector<CountedRange>& counted, DType out) {
  const DType acc = sum.buffer->dtype;
  const std::size_t o = first_spatial(channels_first, 1);
  double whole = 1;  // of the dimensions whose windows never leave the range
  std::vector<std::size_t> partial;
  for (std::size_t s = 0; s < windows.size(); ++s) {
    const Window& w = windows[s];
    const bool inside =
        counted[s].begin == 0 && (w.out - 1) * w.stride + w.reach() <= counted[s].end;
    if (inside) whole *= static_cast<double>(w.kernel);
    if (!inside) partial.push_back(s);
  }
  return b.compute(name, sum.axes, [&](const Indices& i) {
    ir::Expr count;
    for (const std::size_t s : partial) {
      const ir::Expr part = covered(windows[s], counted[s], i[o + s], acc);
      count = count ? count * part : part;
    }
    if (!count || whole != 1) {
      const ir::Expr rest = ir::imm(acc, whole);
      count = count ? count * rest : rest;
    }
    return to_type(out, ir::div(at(sum.buffer, i), count));
  });
}

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
