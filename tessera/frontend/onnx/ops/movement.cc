// Operators that rearrange all elements of a tensor: Reshape and its kin, Transpose, Expand, Tile,
// Concat, DepthToSpace. Those that take parts of a tensor are in slicing.cc.
#include <algorithm>
#include <numeric>
#include <optional>

#include "tessera/frontend/graph/ops/broadcast.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/slicing.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

Result<Values> reshaped(Context& c, const Shape& shape) {
  TESSERA_TRY(const ValueId y, c.b.reshape(c.in(0), shape));
  return Values{y};
}

// Elements per unit of the dimension -1, leaving out dimensions copied from the input: they cancel,
// also when they are zero.
Result<std::int64_t> inferred_dimension(const Shape& x, const std::vector<std::int64_t>& wanted,
                                        bool copies_zero) {
  Shape given, known;
  for (std::size_t d = 0; d < std::max(x.size(), wanted.size()); ++d) {
    if (copies_zero && d < wanted.size() && wanted[d] == 0) continue;
    if (d < x.size()) given.push_back(x[d]);
    if (d < wanted.size() && wanted[d] != -1) known.push_back(wanted[d]);
  }
  TESSERA_TRY(const std::int64_t total, checked_elements(given, DType::kI8));
  TESSERA_TRY(const std::int64_t unit, checked_elements(known, DType::kI8));
  if (unit == 0 || total % unit != 0)
    return invalid("dimension -1 of the new shape of {} has no value", to_text(x));
  return total / unit;
}

Result<Values> reshape_to(Context& c, const std::vector<std::int64_t>& wanted, bool copies_zero) {
  const Shape x = c.shape(0);
  if (std::count(wanted.begin(), wanted.end(), -1) > 1)
    return invalid("the new shape has more than one dimension -1");
  Shape shape;
  for (std::size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] < -1) return invalid("the new shape has dimension {}", wanted[d]);
    if (wanted[d] == 0 && copies_zero && d >= x.size())
      return invalid("dimension {} is copied from a tensor of rank {}", d, x.size());
    shape.push_back(wanted[d] == 0 && copies_zero ? x[d] : wanted[d]);
  }
  const auto open = std::find(shape.begin(), shape.end(), -1);
  if (open != shape.end()) {
    TESSERA_TRY(const std::int64_t size, inferred_dimension(x, wanted, copies_zero));
    *open = size;
  }
  return reshaped(c, shape);
}

Result<Values> import_reshape_1(Context& c) {
  TESSERA_TRY(const auto wanted, c.integers("shape"));
  return reshape_to(c, wanted, true);
}

Result<Values> import_reshape(Context& c) {
  TESSERA_TRY(const auto wanted, c.constant_integers(1, "the new shape"));
  TESSERA_TRY(const std::int64_t allow_zero, c.integer("allowzero", 0));
  return reshape_to(c, wanted, allow_zero == 0);
}

// Axes given by attribute before opset 13, by input from then on; nothing when omitted.
Result<std::optional<std::vector<std::int64_t>>> given_axes(Context& c, std::int64_t rank) {
  std::vector<std::int64_t> raw, axes;
  if (c.version < 13) {
    if (!c.has_attribute("axes")) return std::optional<std::vector<std::int64_t>>();
    TESSERA_TRY(raw, c.integers("axes"));
  } else {
    if (!c.has(1)) return std::optional<std::vector<std::int64_t>>();
    TESSERA_TRY(raw, c.constant_integers(1, "axes"));
  }
  for (const std::int64_t a : raw) {
    TESSERA_TRY(const std::int64_t axis, c.axis(a, rank));
    if (std::find(axes.begin(), axes.end(), axis) != axes.end())
      return invalid("axis {} is given twice", axis);
    axes.push_back(axis);
  }
  return std::optional(axes);
}

Result<Values> import_squeeze(Context& c) {
  const Shape x = c.shape(0);
  TESSERA_TRY(const auto axes, given_axes(c, c.rank(0)));
  Shape shape;
  for (std::size_t d = 0; d < x.size(); ++d) {
    const bool named =
        axes && std::find(axes->begin(), axes->end(), static_cast<std::int64_t>(d)) != axes->end();
    if (named && x[d] != 1) return invalid("axis {} has size {}, not 1", d, x[d]);
    if (axes ? !named : x[d] != 1) shape.push_back(x[d]);
  }
  return reshaped(c, shape);
}

Result<Values> import_unsqueeze(Context& c) {
  const Shape x = c.shape(0);
  const std::int64_t given = [&]() -> std::int64_t {
    if (c.version >= 13) return c.has(1) ? elements(c.shape(1)) : 0;
    const auto axes = c.integers("axes");
    return axes.ok() ? static_cast<std::int64_t>(axes->size()) : 0;
  }();
  TESSERA_TRY(const auto axes, given_axes(c, c.rank(0) + given));
  if (!axes) return invalid("axes are missing");
  Shape shape;
  auto next = x.begin();
  for (std::int64_t d = 0; d < c.rank(0) + given; ++d) {
    const bool added = std::find(axes->begin(), axes->end(), d) != axes->end();
    shape.push_back(added ? 1 : *next++);
  }
  return reshaped(c, shape);
}

Result<Values> import_flatten(Context& c) {
  const Shape x = c.shape(0);
  TESSERA_TRY(std::int64_t axis, c.integer("axis", 1));
  if (axis < -c.rank(0) || axis > c.rank(0))
    return invalid("axis {} is outside rank {}", axis, c.rank(0));
  if (axis < 0) axis += c.rank(0);
  const auto middle = x.begin() + axis;
  return reshaped(c, {elements(Shape(x.begin(), middle)), elements(Shape(middle, x.end()))});
}

Result<Values> import_transpose(Context& c) {
  std::vector<std::int64_t> reversed(c.shape(0).size());
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  TESSERA_TRY(const auto perm, c.integers("perm", reversed));
  TESSERA_TRY(const ValueId y, c.b.transpose(c.in(0), perm));
  return Values{y};
}

Result<Values> expanded(Context& c, ValueId x, const Shape& shape) {
  if (c.b.shape(x) == shape) return Values{x};
  TESSERA_TRY(const ValueId y, c.b.add("expand", {x}, {{"shape", shape}}));
  return Values{y};
}

Result<Values> import_expand(Context& c) {
  TESSERA_TRY(const Shape wanted, c.constant_integers(1, "the new shape"));
  for (const std::int64_t d : wanted) {
    if (d < 0) return invalid("the new shape has dimension {}", d);
  }
  const Shape x = c.shape(0);
  TESSERA_TRY(const Shape shape, graph::broadcast_shapes({&x, &wanted}));
  return expanded(c, c.in(0), shape);
}

// Each repeated axis gets one of size `repeats` before it, along which the data is broadcast.
Result<Values> tiled(Context& c, const std::vector<std::int64_t>& repeats) {
  const Shape x = c.shape(0);
  if (repeats.size() != x.size())
    return invalid("{} repeats for a tensor of rank {}", repeats.size(), x.size());
  Shape split, broadcast, merged;
  for (std::size_t d = 0; d < x.size(); ++d) {
    if (repeats[d] < 0) return invalid("{} repeats", repeats[d]);
    if (repeats[d] != 1 && x[d] != 1) {
      split.push_back(1);
      broadcast.push_back(repeats[d]);
    }
    split.push_back(x[d]);
    broadcast.push_back(x[d] == 1 ? repeats[d] : x[d]);
    TESSERA_TRY(const std::int64_t size, checked_elements({repeats[d], x[d]}, DType::kI8));
    merged.push_back(size);
  }
  TESSERA_TRY(const ValueId apart, c.b.reshape(c.in(0), split));
  TESSERA_TRY(const Values wide, expanded(c, apart, broadcast));
  TESSERA_TRY(const ValueId y, c.b.reshape(wide[0], merged));
  return Values{y};
}

Result<Values> import_tile_1(Context& c) {
  TESSERA_TRY(const auto tiles, c.constant_integers(1, "tiles"));
  TESSERA_TRY(const auto axes, c.constant_integers(2, "axis"));
  if (tiles.size() != 1 || axes.size() != 1) return invalid("tiles and axis must be one number");
  TESSERA_TRY(const std::int64_t axis, c.axis(axes[0], c.rank(0)));
  std::vector<std::int64_t> repeats(c.shape(0).size(), 1);
  repeats[static_cast<std::size_t>(axis)] = tiles[0];
  return tiled(c, repeats);
}

Result<Values> import_tile(Context& c) {
  TESSERA_TRY(const auto repeats, c.constant_integers(1, "repeats"));
  return tiled(c, repeats);
}

Result<Values> import_concat(Context& c) {
  TESSERA_TRY(const std::int64_t raw,
              c.integer("axis", c.version < 4 ? std::optional<std::int64_t>(1) : std::nullopt));
  TESSERA_TRY(const std::int64_t axis, c.axis(raw, c.rank(0)));
  if (c.inputs.size() == 1) return Values{c.in(0)};
  TESSERA_TRY(const ValueId y, c.b.add("concat", c.inputs, {{"axis", axis}}));
  return Values{y};
}

Result<std::int64_t> block_size(Context& c) {
  TESSERA_TRY(const std::int64_t block, c.integer("blocksize"));
  if (c.rank(0) != 4) return invalid("the input has rank {}, not 4", c.rank(0));
  if (block < 1 || block > 1 << 20) return invalid("blocksize {}", block);
  return block;
}

Result<std::string> block_order(const Context& c) {
  TESSERA_TRY(const std::string mode, c.word("mode", "DCR"));
  if (mode != "DCR" && mode != "CRD") return invalid("mode '{}' is not DCR or CRD", mode);
  return mode;
}

Result<Values> rearranged(Context& c, const Shape& split, const std::vector<std::int64_t>& perm,
                          const Shape& merged) {
  TESSERA_TRY(const ValueId apart, c.b.reshape(c.in(0), split));
  TESSERA_TRY(const ValueId moved, c.b.transpose(apart, perm));
  TESSERA_TRY(const ValueId y, c.b.reshape(moved, merged));
  return Values{y};
}

Result<Values> import_depth_to_space(Context& c) {
  TESSERA_TRY(const std::int64_t k, block_size(c));
  TESSERA_TRY(const std::string mode, block_order(c));
  const Shape x = c.shape(0);
  if (x[1] % (k * k) != 0) return invalid("{} channels for blocks of {}x{}", x[1], k, k);
  const std::int64_t channels = x[1] / (k * k);
  const Shape merged = {x[0], channels, x[2] * k, x[3] * k};
  if (mode == "DCR")
    return rearranged(c, {x[0], k, k, channels, x[2], x[3]}, {0, 3, 4, 1, 5, 2}, merged);
  return rearranged(c, {x[0], channels, k, k, x[2], x[3]}, {0, 1, 4, 2, 5, 3}, merged);
}

Result<Values> import_space_to_depth(Context& c) {
  TESSERA_TRY(const std::int64_t k, block_size(c));
  TESSERA_TRY(const std::string mode, block_order(c));
  const Shape x = c.shape(0);
  if (x[2] % k != 0 || x[3] % k != 0)
    return invalid("an image of {}x{} for blocks of {}x{}", x[2], x[3], k, k);
  const std::vector<std::int64_t> depth_last = {0, 3, 5, 1, 2, 4}, depth_first = {0, 1, 3, 5, 2, 4};
  return rearranged(c, {x[0], x[1], x[2] / k, k, x[3] / k, k},
                    mode == "DCR" ? depth_last : depth_first,
                    {x[0], x[1] * k * k, x[2] / k, x[3] / k});
}

}  // namespace

std::vector<OnnxOp> movement_rows() {
  std::vector<OnnxOp> rows = {
      {"Reshape", 1, 1, 1, import_reshape_1, "", false, Widened::kMoved},
      {"Reshape", 5, 2, 2, import_reshape, "", false, Widened::kMoved},
      {"Squeeze", 1, 1, 1, import_squeeze, "", false, Widened::kMoved},
      {"Squeeze", 13, 1, 2, import_squeeze, "", false, Widened::kMoved},
      {"Unsqueeze", 1, 1, 1, import_unsqueeze, "", false, Widened::kMoved},
      {"Unsqueeze", 13, 2, 2, import_unsqueeze, "", false, Widened::kMoved},
      {"Flatten", 1, 1, 1, import_flatten, "", false, Widened::kMoved},
      {"Transpose", 1, 1, 1, import_transpose, "", false, Widened::kMoved, true},
      {"Expand", 8, 2, 2, import_expand, "", false, Widened::kMoved},
      {"Tile", 1, 3, 3, import_tile_1},
      {"Tile", 6, 2, 2, import_tile},
      {"Concat", 1, 1, -1, import_concat, "", false, Widened::kMoved},
      {"DepthToSpace", 1, 1, 1, import_depth_to_space},
      {"SpaceToDepth", 1, 1, 1, import_space_to_depth},
  };
  for (const OnnxOp& row : slicing_rows()) rows.push_back(row);
  return rows;
}

}  // namespace tessera::onnx
