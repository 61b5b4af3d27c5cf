// Operators that choose elements by comparing positions: trilu, reverse_sequence, cache_update,
// cumulate.
#include <algorithm>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> masking_ops();

namespace {

using Buffers = std::vector<ir::Buffer>;
using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;

// Axes up to this length are summed in one stage.
constexpr std::int64_t kShortAxis = 64;

// trilu {k, upper}: keeps column >= row + k (upper) or column <= row + k of the last two axes.
Result<Types> infer_trilu(const NodeView& node) {
  if (node.shape(0).size() < 2)
    return bad_operand("trilu of a tensor of rank {}", node.shape(0).size());
  return single_type(node.dtype(0), node.shape(0));
}

Result<Buffers> define_trilu(te::DagBuilder& b, const std::string& name, const NodeView& node,
                             const Buffers& in) {
  const Shape& x = node.shape(0);
  const std::int64_t rows = x[x.size() - 2], columns = x[x.size() - 1];
  const std::int64_t k = std::clamp(node.attrs.integer("k"), -rows, columns);
  const bool upper = node.attrs.integer("upper") != 0;
  return Buffers{b.compute(name, axes_over(x), [&](const te::Indices& i) {
    const ir::Expr &row = i[i.size() - 2], &column = i[i.size() - 1];
    const ir::Expr diagonal = row + k;
    const ir::Expr keep = upper ? ir::le(diagonal, column) : ir::le(column, diagonal);
    return ir::select(keep, te::at(in[0], i), ir::zero({node.dtype(0), 1}));
  })};
}

// reverse_sequence {batch_axis, time_axis} x, lengths: the first lengths[b] steps in reverse order.
Result<Types> infer_reverse_sequence(const NodeView& node) {
  const Shape& x = node.shape(0);
  const std::int64_t batch = node.attrs.integer("batch_axis"),
                     time = node.attrs.integer("time_axis");
  const std::int64_t rank = static_cast<std::int64_t>(x.size());
  if (batch < 0 || time < 0 || batch >= rank || time >= rank || batch == time)
    return bad_operand("axes {} and {} of a tensor of rank {}", batch, time, rank);
  if (node.shape(1) != Shape{x[static_cast<std::size_t>(batch)]} || node.dtype(1) != DType::kI64) {
    return bad_operand("lengths are {} for a batch of {}", to_text(*node.types[1]),
                       x[static_cast<std::size_t>(batch)]);
  }
  return single_type(node.dtype(0), x);
}

Result<Buffers> define_reverse_sequence(te::DagBuilder& b, const std::string& name,
                                        const NodeView& node, const Buffers& in) {
  const std::size_t batch = static_cast<std::size_t>(node.attrs.integer("batch_axis")),
                    time = static_cast<std::size_t>(node.attrs.integer("time_axis"));
  const std::int64_t steps = node.shape(0)[time];
  return Buffers{b.compute(name, axes_over(node.shape(0)), [&](const te::Indices& i) {
    const ir::Expr length = ir::min(te::at(in[1], {i[batch]}), ir::int_imm(steps));
    te::Indices from = i;
    from[time] = ir::select(ir::lt(i[time], length), length - 1 - i[time], i[time]);
    return te::at(in[0], from);
  })};
}

// cache_update {axis, circular} cache, update, starts i64[batch]: writes update at starts[b] of the
// axis; positions beyond the end are dropped or wrap.
Result<Types> infer_cache_update(const NodeView& node) {
  const Shape &cache = node.shape(0), &update = node.shape(1);
  const std::int64_t axis = node.attrs.integer("axis");
  if (axis < 1 || axis >= static_cast<std::int64_t>(cache.size()))
    return bad_operand("axis {} of a cache of rank {}", axis, cache.size());
  Shape expected = update;
  const std::size_t a = static_cast<std::size_t>(axis);
  if (update.size() == cache.size()) expected[a] = cache[a];
  if (expected != cache || update[a] > cache[a] || node.dtype(1) != node.dtype(0)) {
    return bad_operand("update {} does not fit the cache {}", to_text(*node.types[1]),
                       to_text(*node.types[0]));
  }
  if (node.shape(2) != Shape{cache[0]} || node.dtype(2) != DType::kI64)
    return bad_operand("starts are {} for a batch of {}", to_text(*node.types[2]), cache[0]);
  return single_type(node.dtype(0), cache);
}

Result<Buffers> define_cache_update(te::DagBuilder& b, const std::string& name,
                                    const NodeView& node, const Buffers& in) {
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  const std::int64_t size = node.shape(0)[axis], added = node.shape(1)[axis];
  const bool circular = node.attrs.integer("circular") != 0;
  return Buffers{b.compute(name, axes_over(node.shape(0)), [&](const te::Indices& i) {
    const ir::Expr distance = i[axis] - te::at(in[2], {i[0]});
    const ir::Expr offset = circular ? ir::floor_mod(distance, ir::int_imm(size)) : distance;
    const ir::Expr fresh =
        ir::logical_and(ir::ge(offset, ir::int_imm(0)), ir::lt(offset, ir::int_imm(added)));
    te::Indices from = i;
    from[axis] = offset;
    return ir::select(fresh, te::at(in[1], from), te::at(in[0], i));
  })};
}

// cumulate {kind, axis, exclusive, reverse}: sums or products of all elements up to each.
Result<Types> infer_cumulate(const NodeView& node) {
  const std::int64_t axis = node.attrs.integer("axis");
  const std::string kind = node.attrs.word("kind");
  if (kind != "sum" && kind != "prod") return bad_operand("kind '{}' is not sum or prod", kind);
  if (axis < 0 || axis >= static_cast<std::int64_t>(node.shape(0).size()))
    return bad_operand("axis {} of a tensor of rank {}", axis, node.shape(0).size());
  if (node.dtype(0) == DType::kBool) return bad_operand("cumulate of bool");
  return single_type(node.dtype(0), node.shape(0));
}

ir::Expr to_type(DType t, const ir::Expr& e) { return e.dtype() == t ? e : ir::cast(t, e); }

// Whether element k of the axis is part of the result at i.
ir::Expr is_before(const ir::Expr& k, const ir::Expr& i, bool exclusive, bool reverse) {
  const ir::Expr &a = reverse ? i : k, &c = reverse ? k : i;
  return exclusive ? ir::lt(a, c) : ir::le(a, c);
}

struct Scan {
  std::size_t axis;
  std::int64_t n, block, blocks;
  bool exclusive, reverse, product;

  te::Reducer reducer() const { return product ? te::Reducer::kProd : te::Reducer::kSum; }
  // What changes nothing.
  ir::Expr unit(DType t) const { return product ? ir::imm(t, 1) : ir::zero({t, 1}); }
};

// Stage [.., n]: results within the block of each element, and stage [.., blocks]: those of the
// blocks that come before. The cost of an element is then 2 sqrt(n), not n.
Buffers blocked_stages(te::DagBuilder& b, const std::string& name, const ir::Buffer& x,
                       const Scan& s) {
  const DType acc = compute_type(x->dtype);
  const auto element = [&](te::Indices i, const ir::Expr& block, const ir::Expr& k) {
    const ir::Expr at = block * s.block + k;
    i[s.axis] = at;
    const ir::Expr value = to_type(acc, te::at(x, i));
    if (s.n % s.block == 0) return std::pair(at, value);
    return std::pair(at, ir::select(ir::lt(at, ir::int_imm(s.n)), value, s.unit(acc)));
  };
  const ir::Buffer local = b.reduce(
      name + ".local", s.reducer(), axes_over(x->shape), {{"k", s.block}},
      [&](const te::Indices& i, const te::Indices& k) {
        const ir::Expr block = ir::floor_div(i[s.axis], ir::int_imm(s.block));
        const auto [at, value] = element(i, block, k[0]);
        return ir::select(is_before(at, i[s.axis], s.exclusive, s.reverse), value, s.unit(acc));
      });
  Shape totals = x->shape;
  totals[s.axis] = s.blocks;
  const ir::Buffer total =
      b.reduce(name + ".total", s.reducer(), axes_over(totals), {{"k", s.block}},
               [&](const te::Indices& i, const te::Indices& k) {
                 return element(i, i[s.axis], k[0]).second;
               });
  const ir::Buffer offset =
      b.reduce(name + ".offset", s.reducer(), axes_over(totals), {{"j", s.blocks}},
               [&](const te::Indices& i, const te::Indices& j) {
                 te::Indices from = i;
                 from[s.axis] = j[0];
                 return ir::select(is_before(j[0], i[s.axis], true, s.reverse), te::at(total, from),
                                   s.unit(acc));
               });
  return {local, offset};
}

Result<Buffers> define_cumulate(te::DagBuilder& b, const std::string& name, const NodeView& node,
                                const Buffers& in) {
  const Shape& shape = node.shape(0);
  Scan s{.axis = static_cast<std::size_t>(node.attrs.integer("axis")),
         .n = 0,
         .block = 1,
         .blocks = 1,
         .exclusive = node.attrs.integer("exclusive", 0) != 0,
         .reverse = node.attrs.integer("reverse", 0) != 0,
         .product = node.attrs.word("kind") == "prod"};
  s.n = shape[s.axis];
  const DType t = node.dtype(0), acc = compute_type(t);
  if (s.n <= kShortAxis && acc == t) {
    return Buffers{b.reduce(name, s.reducer(), axes_over(shape), {{"k", s.n}},
                            [&](const te::Indices& i, const te::Indices& k) {
                              te::Indices from = i;
                              from[s.axis] = k[0];
                              return ir::select(is_before(k[0], i[s.axis], s.exclusive, s.reverse),
                                                te::at(in[0], from), s.unit(t));
                            })};
  }
  while (s.block * s.block < s.n) s.block *= 2;
  s.blocks = (s.n + s.block - 1) / s.block;
  const Buffers stages = blocked_stages(b, name, in[0], s);
  return Buffers{b.compute(name, axes_over(shape), [&](const te::Indices& i) {
    te::Indices block = i;
    block[s.axis] = ir::floor_div(i[s.axis], ir::int_imm(s.block));
    const ir::Expr within = te::at(stages[0], i), before = te::at(stages[1], block);
    return to_type(t, s.product ? within * before : within + before);
  })};
}

Result<Tensors> evaluate_cumulate(const NodeView& node, const std::vector<const HostTensor*>& in) {
  const HostTensor& x = *in[0];
  const std::size_t axis = static_cast<std::size_t>(node.attrs.integer("axis"));
  const bool exclusive = node.attrs.integer("exclusive", 0) != 0,
             reverse = node.attrs.integer("reverse", 0) != 0,
             product = node.attrs.word("kind") == "prod";
  const std::int64_t n = x.shape()[axis], inner = span_size(x.shape(), axis + 1, x.shape().size()),
                     outer = span_size(x.shape(), 0, axis);
  HostTensor out(x.dtype(), x.shape());
  for (std::int64_t line = 0; line < outer * inner; ++line) {
    const std::int64_t first = line / inner * n * inner + line % inner;
    double all = product ? 1 : 0;
    std::uint64_t whole = product ? 1 : 0;
    for (std::int64_t step = 0; step < n; ++step) {
      const std::int64_t at = first + (reverse ? n - 1 - step : step) * inner;
      if (is_float(x.dtype())) {
        const double next = product ? all * x.get_float(at) : all + x.get_float(at);
        out.set_float(at, exclusive ? all : next);
        all = next;
      } else {
        const auto v = static_cast<std::uint64_t>(x.get_int(at));
        const std::uint64_t next = product ? whole * v : whole + v;
        out.set_int(at, static_cast<std::int64_t>(exclusive ? whole : next));
        whole = next;
      }
    }
  }
  return Tensors{out};
}

}  // namespace

std::vector<OpDef> masking_ops() {
  return {
      {"trilu", Fusion::kInjective, infer_trilu, define_trilu},
      {"reverse_sequence", Fusion::kInjective, infer_reverse_sequence, define_reverse_sequence},
      {"cache_update", Fusion::kInjective, infer_cache_update, define_cache_update},
      {"cumulate", Fusion::kReduction, infer_cumulate, define_cumulate, evaluate_cumulate},
  };
}

}  // namespace tessera::graph
