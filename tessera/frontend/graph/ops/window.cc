// Pools: pool (max, avg, sum) and max_pool_indices.
#include "tessera/frontend/graph/ops/image.h"
#include "tessera/frontend/graph/ops/ops.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/pool.h"

namespace tessera::graph {
namespace {

using Types = std::vector<TensorType>;
using Buffers = std::vector<ir::Buffer>;

struct Pool {
  Image image;
  std::vector<te::Window> windows;

  Shape out_shape() const { return image.shape(output_sizes(windows), image.c); }
};

Result<Pool> read_pool(const NodeView& node) {
  Pool pool;
  TESSERA_TRY(pool.image, read_image(node));
  TESSERA_TRY(const Shape kernel,
              spatial_attribute(node, "kernel", pool.image.spatial.size(), 1, 1));
  TESSERA_TRY(pool.windows, read_windows(node, pool.image, kernel));
  return pool;
}

Result<Types> infer_pool(const NodeView& node) {
  const std::string& kind = node.attrs.word("kind");
  if (kind != "max" && kind != "avg" && kind != "sum") {
    return make_error(ErrorCode::kInvalidArgument, "pool {} is not max, avg or sum", kind);
  }
  const DType t = node.dtype(0);
  if (!is_float(t) && (kind == "avg" || !is_int(t))) {
    return make_error(ErrorCode::kInvalidArgument, "no {} pool of {}", kind, to_text(t));
  }
  TESSERA_TRY(const Pool pool, read_pool(node));
  if (kind == "avg") {
    TESSERA_TRY([[maybe_unused]] const Shape uncounted,
                spatial_attribute(node, "uncounted", pool.windows.size(), 0, 0));
  }
  return Types{{t, pool.out_shape()}};
}

// Which positions of the padded input an average counts.
Result<std::vector<te::CountedRange>> counted_ranges(const NodeView& node, const Pool& pool) {
  TESSERA_TRY(const Shape uncounted,
              spatial_attribute(node, "uncounted", pool.windows.size(), 0, 0));
  const bool include = node.attrs.integer("include_pad", 0) != 0;
  std::vector<te::CountedRange> ranges;
  for (std::size_t s = 0; s < pool.windows.size(); ++s) {
    const te::Window& w = pool.windows[s];
    ranges.push_back(include ? te::CountedRange{0, w.padded() - uncounted[s]}
                             : te::CountedRange{w.pad_lo, w.pad_lo + w.size});
  }
  return ranges;
}

Result<Buffers> define_pool(te::DagBuilder& b, const std::string& name, const NodeView& node,
                            const Buffers& in) {
  TESSERA_TRY(const Pool pool, read_pool(node));
  const std::string& kind = node.attrs.word("kind");
  const DType out = node.dtype(0), acc = compute_type(out);
  const bool first = pool.image.channels_first;
  const std::vector<te::Window> windows = without_unread_padding(pool.windows);
  const bool max = kind == "max";
  const ir::Expr fill = max ? te::identity(te::Reducer::kMax, out, 0) : ir::imm(out, 0);
  const ir::Buffer padded = te::pad_stage(b, name + ".pad", in[0], first, windows, fill);
  if (max) {
    // What no instruction compares is widened once for each element, not with what was found.
    const DType wide = out == DType::kBF16 ? acc : out;
    const te::Stage y = te::window_stage(b, wide == out ? name : name + ".acc", te::Reducer::kMax,
                                         padded, first, windows, wide);
    return Buffers{te::cast_output(b, y.buffer, out, y.axes, name)};
  }
  const bool one_stage = kind == "sum" && acc == out;
  const te::Stage sum = te::window_stage(b, one_stage ? name : name + ".acc", te::Reducer::kSum,
                                         padded, first, windows, acc);
  if (kind == "sum") return Buffers{te::cast_output(b, sum.buffer, out, sum.axes, name)};
  TESSERA_TRY(const std::vector<te::CountedRange> counted, counted_ranges(node, pool));
  return Buffers{te::average_stage(b, name, sum, first, windows, counted, out)};
}

Result<Types> infer_max_pool_indices(const NodeView& node) {
  const DType t = node.dtype(0);
  if (!is_float(t) && !is_int(t)) {
    return make_error(ErrorCode::kInvalidArgument, "no max pool of {}", to_text(t));
  }
  TESSERA_TRY(const Pool pool, read_pool(node));
  return Types{{t, pool.out_shape()}, {DType::kI64, pool.out_shape()}};
}

// Row-major position of `at` in an array of `sizes`; column-major when `reversed`.
ir::Expr flat_position(const te::Indices& at, const Shape& sizes, bool reversed) {
  ir::Expr flat;
  for (std::size_t k = 0; k < at.size(); ++k) {
    const std::size_t s = reversed ? at.size() - 1 - k : k;
    flat = flat ? te::scaled(flat, sizes[s]) + at[s] : at[s];
  }
  return flat;
}

// The inverse of flat_position(.., false).
te::Indices unflatten(ir::Expr flat, const Shape& sizes) {
  te::Indices at(sizes.size());
  for (std::size_t s = sizes.size(); s-- > 1;) {
    at[s] = ir::floor_mod(flat, ir::int_imm(sizes[s]));
    flat = ir::floor_div(flat, ir::int_imm(sizes[s]));
  }
  at[0] = flat;
  return at;
}

// Stage `name`.max finds value and position within the channel; ties go to the first in row-major
// order, padding loses them all.
Result<Buffers> define_max_pool_indices(te::DagBuilder& b, const std::string& name,
                                        const NodeView& node, const Buffers& in) {
  TESSERA_TRY(const Pool pool, read_pool(node));
  const bool first = pool.image.channels_first;
  const Shape& sizes = pool.image.spatial;
  const std::size_t c = first ? 1 : 1 + sizes.size();
  const std::size_t o = te::first_spatial(first, 1);
  te::NamedAxes spatial, reduce;
  for (const te::Window& w : pool.windows) {
    spatial.emplace_back(w.out_axis(), w.out);
    reduce.emplace_back(w.kernel_axis(), w.kernel);
  }
  const auto axes = te::arrange<te::NamedAxes::value_type>(first, {"n", pool.image.n}, spatial,
                                                           {{"c", pool.image.c}});
  const DType t = node.dtype(0);
  const auto [best, index] = b.arg_reduce(
      name + ".max", te::Reducer::kArgMax, axes, reduce,
      [&](const te::Indices& i, const te::Indices& r) {
        te::Indices position;
        ir::Expr inside = ir::bool_imm(true);
        for (std::size_t s = 0; s < sizes.size(); ++s) {
          const te::Window& w = pool.windows[s];
          position.push_back(te::shifted(w.position(i[o + s], r[s]), -w.pad_lo));
          if (w.pad_lo + w.pad_hi == 0) continue;
          inside = ir::logical_and(inside, ir::ge(position[s], ir::int_imm(0)));
          inside = ir::logical_and(inside, ir::lt(position[s], ir::int_imm(sizes[s])));
        }
        const ir::Expr value = te::at(in[0], te::arrange<ir::Expr>(first, i[0], position, {i[c]}));
        const ir::Expr flat = flat_position(position, sizes, false);
        return std::pair{
            ir::select(inside, value, te::identity(te::Reducer::kArgMax, t, 0)),
            ir::select(inside, flat, te::identity(te::Reducer::kArgMax, DType::kI64, 1))};
      });
  const bool reversed = node.attrs.integer("column_major", 0) != 0;
  const ir::Buffer flat = b.compute(name, axes, [&, index = index](const te::Indices& i) {
    ir::Expr within = te::at(index, i);
    if (reversed) within = flat_position(unflatten(within, sizes), sizes, true);
    const ir::Expr plane = te::scaled(i[0], pool.image.c) + i[c];
    return te::scaled(plane, elements(sizes)) + within;
  });
  return Buffers{best, flat};
}

}  // namespace

std::vector<OpDef> window_ops() {
  return {
      {"max_pool_indices", Fusion::kWindow, infer_max_pool_indices, define_max_pool_indices},
      with(fact::kKeepsAxes | fact::kImages, {"pool", Fusion::kWindow, infer_pool, define_pool}),
  };
}

}  // namespace tessera::graph
