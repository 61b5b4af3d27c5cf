// Transposed convolution, and its operation spec in two dimensions.
#include "tessera/lang/te/ops/conv_transpose.h"

#include <algorithm>

#include "tessera/lang/te/ops/columns.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"
#include "tessera/lang/te/ops/winograd.h"
#include "tessera/lang/te/ops/winograd_transposed.h"

namespace tessera::te {
namespace {

// How one dimension is split into `stride` phases.
struct Phase {
  const TransposedWindow& w;
  std::int64_t taps;     // per phase: ceil(kernel / stride)
  std::int64_t q_first;  // of output 0
  std::int64_t q_count;
  std::int64_t grow_lo, grow_hi;  // zeros around the input, so that q - u always exists
  // Phase 0 begins one quotient later than phase 1: counted from its own first one, no phase
  // computes what is cropped. (Of more than two phases the first ones would need a condition.)
  bool skewed;

  // Quotient q reads reach() elements of the padded input from q + lowest() on; tap u of phase r
  // reads number place(u, r).
  std::int64_t reach() const { return taps + (skewed ? 1 : 0); }
  std::int64_t lowest() const { return q_first + grow_lo - taps + 1; }
  ir::Expr place(const ir::Expr& u, const ir::Expr& r) const {
    return (skewed ? ir::int_imm(taps) - r : ir::int_imm(taps - 1)) - u;
  }
  // Input position of quotient q and tap u in phase r.
  ir::Expr row(const ir::Expr& q, const ir::Expr& u, const ir::Expr& r) const {
    if (skewed) return shifted(q - u - r, q_first + 1 + grow_lo);
    return shifted(q - u, q_first + grow_lo);
  }
  // Kernel position of tap u in phase r.
  ir::Expr tap(const ir::Expr& r, const ir::Expr& u) const { return r + scaled(u, w.stride); }
  ir::Expr quotient(const ir::Expr& o) const {
    if (skewed) return ir::floor_div(o, ir::int_imm(w.stride));
    return shifted(ir::floor_div(shifted(o, w.pad_lo), ir::int_imm(w.stride)), -q_first);
  }
  ir::Expr phase(const ir::Expr& o) const {
    return ir::floor_mod(shifted(o, w.pad_lo), ir::int_imm(w.stride));
  }
};

Phase make_phase(const TransposedWindow& w) {
  Phase p{.w = w,
          .taps = (w.kernel + w.stride - 1) / w.stride,
          .q_first = w.pad_lo / w.stride,
          .q_count = 0,
          .grow_lo = 0,
          .grow_hi = 0,
          .skewed = w.stride == 2 && w.pad_lo % 2 != 0};
  std::int64_t q_last = (w.pad_lo + w.out - 1) / w.stride;
  p.q_count = q_last - p.q_first + 1;
  if (p.skewed) {
    p.q_count = (w.out + 1) / 2;
    q_last = p.q_first + p.q_count;
  }
  p.grow_lo = std::max<std::int64_t>(0, p.taps - 1 - p.q_first);
  p.grow_hi = std::max<std::int64_t>(0, q_last - (w.size - 1));
  return p;
}

// Channel axes, and how the channels of x and weight follow from them.
struct Channels {
  std::int64_t groups, ci, co;  // ci and co of one group

  Channels(const ConvTransposeParams& params, const ir::Buffer& weight)
      : groups(params.groups), ci(weight->shape[0] / params.groups), co(weight->shape[1]) {}
  NamedAxes axes() const {
    NamedAxes list;
    if (groups > 1) list.emplace_back("g", groups);
    list.emplace_back("co", co);
    return list;
  }
  std::size_t count() const { return groups > 1 ? 2 : 1; }
  ir::Expr input(const ir::Expr& group, const ir::Expr& in_channel) const {
    return groups > 1 ? scaled(group, ci) + in_channel : in_channel;
  }
};

// The product, or zero where the kernel ends before the tap of a phase.
ir::Expr where_taps_exist(const std::vector<Phase>& phases, const Indices& w_index,
                          ir::Expr product) {
  for (std::size_t s = phases.size(); s-- > 0;) {
    if (phases[s].w.kernel % phases[s].w.stride == 0) continue;
    const ir::Expr exists = ir::lt(w_index[2 + s], ir::int_imm(phases[s].w.kernel));
    product = ir::select(exists, product, ir::imm(product.dtype(), 0));
  }
  return product;
}

// Stage G[q, a.., ci]: elements a.. of the padded input from the first one on that the position q
// of all images reads.
ir::Buffer gather_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                        const std::vector<Phase>& phases) {
  std::int64_t per_image = 1;
  for (const Phase& p : phases) per_image *= p.q_count;
  NamedAxes axes = {{"q", padded->shape[0] * per_image}};
  for (const Phase& p : phases) axes.emplace_back("a" + p.w.axis, p.reach());
  axes.emplace_back("ci", padded->shape.back());
  return b.compute(name, axes, [&](const Indices& i) {
    Indices from(phases.size());
    ir::Expr rest = i[0];
    for (std::size_t s = phases.size(); s-- > 0;) {
      const ir::Expr count = ir::int_imm(phases[s].q_count);
      const ir::Expr q = s == 0 && padded->shape[0] == 1 ? rest : ir::floor_mod(rest, count);
      from[s] = shifted(q + i[1 + s], phases[s].lowest());
      rest = ir::floor_div(rest, count);
    }
    from.insert(from.begin(), padded->shape[0] == 1 ? ir::int_imm(0) : rest);
    from.push_back(i.back());
    return at(padded, from);
  });
}

// Stage Q[r..., q, co] of what was gathered.
ir::Buffer gathered_stage(DagBuilder& b, const std::string& name, const ir::Buffer& gathered,
                          const ir::Buffer& weight, const std::vector<Phase>& phases, DType acc) {
  NamedAxes axes, reduce;
  for (const Phase& p : phases) {
    axes.emplace_back("r" + p.w.axis, p.w.stride);
    reduce.emplace_back("k" + p.w.axis, p.taps);
  }
  axes.insert(axes.end(), {{"q", gathered->shape[0]}, {"co", weight->shape[1]}});
  reduce.emplace_back("ci", gathered->shape.back());
  return b.reduce(name, Reducer::kSum, axes, reduce, [&](const Indices& i, const Indices& r) {
    Indices from = {i[phases.size()]}, w_index = {r.back(), i.back()};
    for (std::size_t s = 0; s < phases.size(); ++s) {
      from.push_back(phases[s].place(r[s], i[s]));
      w_index.push_back(phases[s].tap(i[s], r[s]));
    }
    from.push_back(r.back());
    return where_taps_exist(phases, w_index,
                            to_type(acc, at(gathered, from)) * to_type(acc, at(weight, w_index)));
  });
}

// Stage Q[r..., n, q..., co]: every phase of the output, before cropping.
ir::Buffer phase_stage(DagBuilder& b, const std::string& name, const ir::Buffer& padded,
                       const ir::Buffer& weight, const ConvTransposeParams& params,
                       const std::vector<Phase>& phases, DType acc) {
  const Channels channels(params, weight);
  const bool first = params.channels_first;
  NamedAxes axes, quotients, reduce;
  for (const Phase& p : phases) {
    axes.emplace_back("r" + p.w.axis, p.w.stride);
    quotients.emplace_back("q" + p.w.axis, p.q_count);
    reduce.emplace_back("k" + p.w.axis, p.taps);
  }
  reduce.emplace_back("ci", channels.ci);
  const NamedAxes image =
      arrange<NamedAxes::value_type>(first, {"n", padded->shape[0]}, quotients, channels.axes());
  axes.insert(axes.end(), image.begin(), image.end());
  const std::size_t n = phases.size();  // index of axis n
  const std::size_t q = n + first_spatial(first, channels.count());
  const std::size_t c = n + (first ? 1 : 1 + phases.size());
  return b.reduce(name, Reducer::kSum, axes, reduce, [&](const Indices& i, const Indices& r) {
    Indices position, w_index = {channels.input(i[c], r.back()), i[c + channels.count() - 1]};
    for (std::size_t s = 0; s < phases.size(); ++s) {
      position.push_back(phases[s].row(i[q + s], r[s], i[s]));
      w_index.push_back(phases[s].tap(i[s], r[s]));
    }
    const ir::Expr value =
        at(padded, arrange<ir::Expr>(first, i[n], position, {channels.input(i[c], r.back())}));
    return where_taps_exist(phases, w_index,
                            to_type(acc, value) * to_type(acc, at(weight, w_index)));
  });
}

// Axes n, o*, co of the output.
NamedAxes output_axes(const ConvTransposeParams& params, std::int64_t n,
                      const NamedAxes& channels) {
  NamedAxes spatial;
  for (const TransposedWindow& w : params.windows) spatial.emplace_back("o" + w.axis, w.out);
  return arrange<NamedAxes::value_type>(params.channels_first, {"n", n}, spatial, channels);
}

ir::Buffer by_phases(DagBuilder& b, const ConvTransposeNames& names, const ir::Buffer& x,
                     const ir::Buffer& weight, const ConvTransposeParams& params, DType acc,
                     DType out) {
  const bool first = params.channels_first;
  std::vector<Phase> phases;
  std::vector<std::int64_t> lo, hi;
  std::vector<std::string> spatial;
  for (const TransposedWindow& w : params.windows) {
    phases.push_back(make_phase(w));
    lo.push_back(phases.back().grow_lo);
    hi.push_back(phases.back().grow_hi);
    spatial.push_back(w.axis);
  }
  const ir::Buffer padded =
      pad_stage(b, names.pad, x, arrange<std::string>(first, "n", spatial, {"c"}),
                first_spatial(first, 1), lo, hi, ir::imm(x->dtype, 0));
  const ir::Buffer q =
      params.gathered
          ? gathered_stage(b, names.phases, gather_stage(b, names.gathered, padded, phases), weight,
                           phases, acc)
          : phase_stage(b, names.phases, padded, weight, params, phases, acc);
  const Channels channels(params, weight);
  const NamedAxes axes = output_axes(params, x->shape[0], {{"co", channels.groups * channels.co}});
  const std::size_t o = first_spatial(first, 1), c = first ? 1 : 1 + phases.size();
  return b.compute(names.out, axes, [&](const Indices& i) {
    Indices index, quotients, channel = {i[c]};
    for (std::size_t s = 0; s < phases.size(); ++s) {
      index.push_back(phases[s].phase(i[o + s]));
      quotients.push_back(phases[s].quotient(i[o + s]));
    }
    if (channels.groups > 1) {
      const ir::Expr per_group = ir::int_imm(channels.co);
      channel = {ir::floor_div(i[c], per_group), ir::floor_mod(i[c], per_group)};
    }
    Indices image = arrange<ir::Expr>(first, i[0], quotients, channel);
    if (params.gathered) {
      ir::Expr position = i[0];
      for (std::size_t s = 0; s < phases.size(); ++s)
        position = scaled(position, phases[s].q_count) + quotients[s];
      image = {position, i[c]};
    }
    index.insert(index.end(), image.begin(), image.end());
    return to_type(out, at(q, index));
  });
}

// An image of one element meets every tap once, each for an output of its own.
bool is_point(const ConvTransposeParams& params) {
  return params.groups == 1 &&
         std::all_of(params.windows.begin(), params.windows.end(), [](const TransposedWindow& w) {
           return w.size == 1 && w.dilation == 1 && w.pad_lo + w.out <= w.kernel;
         });
}

ir::Buffer by_point(DagBuilder& b, const ConvTransposeNames& names, const ir::Buffer& x,
                    const ir::Buffer& weight, const ConvTransposeParams& params, DType acc,
                    DType out) {
  const bool first = params.channels_first;
  const std::vector<TransposedWindow>& windows = params.windows;
  const NamedAxes axes = output_axes(params, x->shape[0], {{"co", weight->shape[1]}});
  const std::size_t o = first_spatial(first, 1), c = first ? 1 : 1 + windows.size();
  const ir::Buffer sum =
      b.reduce(acc == out ? names.out : names.phases, Reducer::kSum, axes,
               {{"ci", weight->shape[0]}}, [&](const Indices& i, const Indices& r) {
                 const Indices position(windows.size(), ir::int_imm(0));
                 Indices w_index = {r[0], i[c]};
                 for (std::size_t s = 0; s < windows.size(); ++s)
                   w_index.push_back(shifted(i[o + s], windows[s].pad_lo));
                 const ir::Expr value = at(x, arrange<ir::Expr>(first, i[0], position, {r[0]}));
                 return to_type(acc, value) * to_type(acc, at(weight, w_index));
               });
  return cast_output(b, sum, out, axes, names.out);
}

// Any dilation: every output tries every tap and skips those that fall between input elements.
ir::Buffer by_taps(DagBuilder& b, const ConvTransposeNames& names, const ir::Buffer& x,
                   const ir::Buffer& weight, const ConvTransposeParams& params, DType acc,
                   DType out) {
  const Channels channels(params, weight);
  const bool first = params.channels_first;
  const std::vector<TransposedWindow>& windows = params.windows;
  const NamedAxes axes = output_axes(params, x->shape[0], {{"co", channels.groups * channels.co}});
  NamedAxes reduce;
  for (const TransposedWindow& w : windows) reduce.emplace_back("k" + w.axis, w.kernel);
  reduce.emplace_back("ci", channels.ci);
  const std::size_t o = first_spatial(first, 1), c = first ? 1 : 1 + windows.size();
  const ir::Expr per_group = ir::int_imm(channels.co);
  const ir::Buffer sum = b.reduce(
      acc == out ? names.out : names.phases, Reducer::kSum, axes, reduce,
      [&](const Indices& i, const Indices& r) {
        const bool grouped = channels.groups > 1;
        const ir::Expr group = grouped ? ir::floor_div(i[c], per_group) : ir::int_imm(0);
        const ir::Expr in_channel = channels.input(group, r.back());
        Indices position;
        Indices w_index = {in_channel, grouped ? ir::floor_mod(i[c], per_group) : i[c]};
        ir::Expr meets;
        const auto require = [&](const ir::Expr& cond) {
          meets = meets ? ir::logical_and(meets, cond) : cond;
        };
        for (std::size_t s = 0; s < windows.size(); ++s) {
          const TransposedWindow& w = windows[s];
          const ir::Expr t = shifted(i[o + s], w.pad_lo) - scaled(r[s], w.dilation);
          const ir::Expr stride = ir::int_imm(w.stride);
          require(ir::ge(t, ir::int_imm(0)));
          require(ir::lt(t, ir::int_imm(w.size * w.stride)));
          if (w.stride > 1) require(ir::eq(ir::floor_mod(t, stride), ir::int_imm(0)));
          position.push_back(w.stride > 1 ? ir::floor_div(t, stride) : t);
          w_index.push_back(r[s]);
        }
        const ir::Expr value = at(x, arrange<ir::Expr>(first, i[0], position, {in_channel}));
        const ir::Expr product = to_type(acc, value) * to_type(acc, at(weight, w_index));
        return ir::select(meets, product, ir::imm(acc, 0));
      });
  return cast_output(b, sum, out, axes, names.out);
}

Result<TransposedWindow> read_window(const OpSpec& spec, const SpatialDim& dim) {
  const auto pad = [&](const char* name) {
    return spec.ints.count(name) ? spec.ints.at(name) : spec.ints.at("P");
  };
  TransposedWindow w{.axis = dim.axis,
                     .size = spec.ints.at(dim.size),
                     .kernel = spec.ints.at(dim.kernel),
                     .stride = spec.ints.at("S"),
                     .dilation = 1,
                     .pad_lo = pad(dim.pad_lo)};
  const std::int64_t extra = spec.ints.at("OP");
  if (extra >= w.stride) {
    return make_error(ErrorCode::kInvalidArgument, "{}: OP={} must be less than S={}", spec.op,
                      extra, w.stride);
  }
  w.out = (w.size - 1) * w.stride + w.kernel + extra - w.pad_lo - pad(dim.pad_hi);
  if (w.out < 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: padding leaves no output in dimension {}",
                      spec.op, dim.size);
  }
  return w;
}

Result<Dag> make_conv_transpose(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  TESSERA_TRY(const std::vector<TransposedWindow> windows, read_transposed_windows(spec));
  const TransposedWindow &h = windows[0], &w = windows[1];
  const std::int64_t n = spec.ints.at("N"), ci = spec.ints.at("CI"), co = spec.ints.at("CO");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {n, h.size, w.size, ci});
  if (const int m = winograd_tile(spec); m > 0) {
    if (!has_winograd(windows, m)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: algo={} needs KH and KW beyond S, and few enough taps for such tiles",
                        spec.op, spec.words.at("algo"));
    }
    const Shape shape = winograd_weights_shape({ci, co, h.kernel, w.kernel}, windows, m);
    const ir::Buffer u = b.constant("U", types.acc, shape);
    TESSERA_TRY(const ir::Buffer y, winograd_stages(b, "", "Y", x, u, windows, m, types.out));
    return b.build({y});
  }
  const ir::Buffer weight = b.constant("W", types.in, {ci, co, h.kernel, w.kernel});
  const bool gathered = spec.words.at("algo") == kColumnsAlgorithm;
  return b.build({conv_transpose_stages(b, {"pad", "Q", "Y"}, x, weight,
                                        {windows, 1, false, gathered}, types.acc, types.out)});
}

// Every input element meets every tap once.
double useful_flops(const OpSpec& spec) {
  double total = 2;
  for (const char* name : {"N", "H", "W", "CI", "CO", "KH", "KW"})
    total *= static_cast<double>(spec.ints.at(name));
  return total;
}

}  // namespace

ir::Buffer conv_transpose_stages(DagBuilder& b, const ConvTransposeNames& names,
                                 const ir::Buffer& x, const ir::Buffer& weight,
                                 const ConvTransposeParams& params, DType acc, DType out) {
  if (is_point(params)) return by_point(b, names, x, weight, params, acc, out);
  const auto dilated = [](const TransposedWindow& w) { return w.dilation != 1; };
  const bool any = std::any_of(params.windows.begin(), params.windows.end(), dilated);
  return (any ? by_taps : by_phases)(b, names, x, weight, params, acc, out);
}

Result<std::vector<TransposedWindow>> read_transposed_windows(const OpSpec& spec) {
  TESSERA_TRY(TransposedWindow h, read_window(spec, kHeight));
  TESSERA_TRY(TransposedWindow w, read_window(spec, kWidth));
  return std::vector<TransposedWindow>{std::move(h), std::move(w)};
}

OpEntry conv_transpose2d_op() {
  std::vector<const char*> algorithms;
  for (const ConvAlgorithm& a : conv_algorithms()) algorithms.push_back(a.name);
  algorithms.push_back(kColumnsAlgorithm);
  OpEntry entry{.name = "conv_transpose2d",
                .doc = "transposed 2-D convolution, NHWC",
                .params = {{"N", kRequired, "batch"},
                           {"H", kRequired, "size of the input"},
                           {"W", kRequired, "size of the input"},
                           {"CI", kRequired, "input channels"},
                           {"CO", kRequired, "output channels"},
                           {"KH", kRequired, "size of the kernel"},
                           {"KW", kRequired, "size of the kernel"}},
                .words = {{"algo", algorithms, "algorithm", true}},
                .make = make_conv_transpose,
                .flops = useful_flops};
  for (const OpParam& p : window_params({kHeight, kWidth}, false)) entry.params.push_back(p);
  entry.params.push_back({"OP", 0, "extra rows and columns of output at the end", 0});
  return entry;
}

}  // namespace tessera::te
