// Transposed 2-D convolution by output phases: output t = S*q + r (t = oh + padding) gathers only
// the taps kh = r + S*u, from input row q - u. So every phase (rh, rw) is a dense convolution with
// ceil(K/S) taps and no multiplication meets an inserted zero.
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"
#include "tessera/te/ops/window.h"

namespace tessera::te {
namespace {

struct Phase {
  std::int64_t size, kernel, stride, pad_lo;
  std::int64_t out;
  std::int64_t taps;     // per phase: ceil(kernel / stride)
  std::int64_t q_first;  // of output 0
  std::int64_t q_count;
  std::int64_t grow_lo, grow_hi;  // zeros around the input, so that q - u always exists
};

Result<Phase> read_phase(const OpSpec& spec, const SpatialDim& dim) {
  const auto pad = [&](const char* name) {
    return spec.ints.count(name) ? spec.ints.at(name) : spec.ints.at("P");
  };
  Phase p{.size = spec.ints.at(dim.size),
          .kernel = spec.ints.at(dim.kernel),
          .stride = spec.ints.at("S"),
          .pad_lo = pad(dim.pad_lo),
          .out = 0,
          .taps = 0,
          .q_first = 0,
          .q_count = 0,
          .grow_lo = 0,
          .grow_hi = 0};
  const std::int64_t extra = spec.ints.at("OP");
  if (extra >= p.stride) {
    return make_error(ErrorCode::kInvalidArgument, "{}: OP={} must be less than S={}", spec.op,
                      extra, p.stride);
  }
  p.out = (p.size - 1) * p.stride + p.kernel + extra - p.pad_lo - pad(dim.pad_hi);
  if (p.out < 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: padding leaves no output in dimension {}",
                      spec.op, dim.size);
  }
  p.taps = (p.kernel + p.stride - 1) / p.stride;
  p.q_first = p.pad_lo / p.stride;
  const std::int64_t q_last = (p.pad_lo + p.out - 1) / p.stride;
  p.q_count = q_last - p.q_first + 1;
  p.grow_lo = std::max<std::int64_t>(0, p.taps - 1 - p.q_first);
  p.grow_hi = std::max<std::int64_t>(0, q_last - (p.size - 1));
  return p;
}

// Stage Q[rh, rw, n, qh, qw, co]: every phase of the output, before cropping.
ir::Buffer phase_stage(DagBuilder& b, const ir::Buffer& padded, const ir::Buffer& weight,
                       const Phase& h, const Phase& w, DType acc) {
  const NamedAxes axes = {{"rh", h.stride},  {"rw", w.stride},  {"n", padded->shape[0]},
                          {"qh", h.q_count}, {"qw", w.q_count}, {"co", weight->shape[1]}};
  const NamedAxes reduce = {{"kh", h.taps}, {"kw", w.taps}, {"ci", weight->shape[0]}};
  const auto row = [](const Phase& p, const ir::Expr& q, const ir::Expr& u) {
    return shifted(q - u, p.q_first + p.grow_lo);
  };
  const auto tap = [](const Phase& p, const ir::Expr& r, const ir::Expr& u) {
    return r + scaled(u, p.stride);
  };
  return b.reduce("Q", Reducer::kSum, axes, reduce, [&](const Indices& i, const Indices& r) {
    const ir::Expr th = tap(h, i[0], r[0]), tw = tap(w, i[1], r[1]);
    const ir::Expr value = at(padded, {i[2], row(h, i[3], r[0]), row(w, i[4], r[1]), r[2]});
    ir::Expr product = to_type(acc, value) * to_type(acc, at(weight, {r[2], i[5], th, tw}));
    const ir::Expr zero = ir::imm(acc, 0);
    if (w.kernel % w.stride != 0)
      product = ir::select(ir::lt(tw, ir::int_imm(w.kernel)), product, zero);
    if (h.kernel % h.stride != 0)
      product = ir::select(ir::lt(th, ir::int_imm(h.kernel)), product, zero);
    return product;
  });
}

Result<Dag> make_conv_transpose(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  TESSERA_TRY(const Phase h, read_phase(spec, kHeight));
  TESSERA_TRY(const Phase w, read_phase(spec, kWidth));
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, h.size, w.size, ci});
  const ir::Buffer weight = b.constant("W", types.in, {ci, co, h.kernel, w.kernel});
  const ir::Buffer padded = pad_stage(b, x, {"n", "h", "w", "c"}, 1, {h.grow_lo, w.grow_lo},
                                      {h.grow_hi, w.grow_hi}, ir::imm(types.in, 0));
  const ir::Buffer q = phase_stage(b, padded, weight, h, w, types.acc);
  const NamedAxes axes = {{"n", n}, {"oh", h.out}, {"ow", w.out}, {"co", co}};
  const ir::Buffer y = b.compute("Y", axes, [&](const Indices& i) {
    const auto quotient = [](const Phase& p, const ir::Expr& o) {
      return shifted(ir::floor_div(shifted(o, p.pad_lo), ir::int_imm(p.stride)), -p.q_first);
    };
    const auto phase = [](const Phase& p, const ir::Expr& o) {
      return ir::floor_mod(shifted(o, p.pad_lo), ir::int_imm(p.stride));
    };
    return to_type(types.out, at(q, {phase(h, i[1]), phase(w, i[2]), i[0], quotient(h, i[1]),
                                     quotient(w, i[2]), i[3]}));
  });
  return b.build({y});
}

// Every input element meets every tap once.
double useful_flops(const OpSpec& spec) {
  double total = 2;
  for (const char* name : {"N", "H", "W", "CI", "CO", "KH", "KW"})
    total *= static_cast<double>(spec.ints.at(name));
  return total;
}

}  // namespace

OpEntry conv_transpose2d_op() {
  OpEntry entry{.name = "conv_transpose2d",
                .doc = "transposed 2-D convolution, NHWC",
                .params = {{"N", kRequired, "batch"},
                           {"H", kRequired, "size of the input"},
                           {"W", kRequired, "size of the input"},
                           {"CI", kRequired, "input channels"},
                           {"CO", kRequired, "output channels"},
                           {"KH", kRequired, "size of the kernel"},
                           {"KW", kRequired, "size of the kernel"}},
                .words = {},
                .make = make_conv_transpose,
                .flops = useful_flops};
  for (const OpParam& p : window_params({kHeight, kWidth}, false)) entry.params.push_back(p);
  entry.params.push_back({"OP", 0, "extra rows and columns of output at the end", 0});
  return entry;
}

}  // namespace tessera::te
