// Operators that move elements.
#include <algorithm>
#include <numeric>

#include "draw.h"

namespace tessera::fuzz {
namespace {

std::string operand(Draw& d, const OpRow& row) {
  return d.any(d.type(row.types), row.ranks, row.range);
}

// A shape of the same elements: neighbours merged, or one split.
Shape regrouped(Draw& d, Shape s) {
  for (int step = 0; step < 2; ++step) {
    const std::int64_t rank = std::ssize(s);
    if (rank >= 2 && d.chance(0.5)) {
      const auto at = static_cast<std::size_t>(d.between(0, rank - 2));
      s[at] *= s[at + 1];
      s.erase(s.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    } else if (rank < 5) {
      const auto at = static_cast<std::size_t>(d.between(0, std::max<std::int64_t>(rank - 1, 0)));
      if (s.empty()) {
        s.push_back(1);
        continue;
      }
      Shape factors = {1};
      for (std::int64_t f = 2; f < s[at]; ++f) {
        if (s[at] % f == 0) factors.push_back(f);
      }
      const std::int64_t f = d.one_of(factors);
      s[at] /= f;
      s.insert(s.begin() + static_cast<std::ptrdiff_t>(at), f);
    }
  }
  return s;
}

// The shape is a constant, or computed from that of a value as exporters do.
bool reshape(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const Shape old = d.shape(x);
  Shape s = regrouped(d, old);
  const std::int64_t total = elements(old);
  if (!s.empty() && total > 0 && d.chance(0.4))
    s[static_cast<std::size_t>(d.between(0, std::ssize(s) - 1))] = -1;
  if (total > 0 && !s.empty() && !old.empty() && s[0] == old[0] && d.chance(0.4)) {
    if (!d.emit("Shape", {x})) return false;
    const std::string sizes = d.outputs[0];
    if (!d.emit("Gather", {sizes, d.integers({0})}, {attr("axis", 0)})) return false;
    const std::string first = d.outputs[0];
    const Shape rest(s.begin() + 1, s.end());
    if (!d.emit("Concat", {first, d.integers(rest)}, {attr("axis", 0)})) return false;
    return d.emit(row.name, {x, d.outputs[0]});
  }
  const bool zeros = std::count(s.begin(), s.end(), 0) > 0;
  if (zeros && d.opset < 14) return false;
  return d.emit(row.name, {x, d.integers(s)},
                zeros ? Attributes{attr("allowzero", 1)} : Attributes{});
}

bool squeeze(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const Shape s = d.shape(x);
  Shape axes;
  for (std::size_t k = 0; k < s.size(); ++k) {
    if (s[k] == 1 && d.chance(0.7)) axes.push_back(static_cast<std::int64_t>(k));
  }
  if (axes.empty() || d.chance(0.2)) return d.emit(row.name, {x});
  if (d.opset < 13) return d.emit(row.name, {x}, {attr("axes", axes)});
  return d.emit(row.name, {x, d.integers(axes)});
}

bool unsqueeze(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const std::int64_t rank = d.rank(x) + 1;
  const Shape axes = {d.between(d.opset < 13 ? 0 : -rank, rank - 1)};
  if (d.opset < 13) return d.emit(row.name, {x}, {attr("axes", axes)});
  return d.emit(row.name, {x, d.integers(axes)});
}

bool flatten(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  return d.emit(row.name, {x}, {attr("axis", d.between(0, d.rank(x)))});
}

bool transpose(Draw& d, const OpRow& row) {
  std::string x = operand(d, row);
  if (d.chance(0.1)) return d.emit(row.name, {x});
  // Often two in a row, as conversions of layouts leave them.
  for (std::int64_t count = d.chance(0.4) ? 2 : 1; count > 0; --count) {
    Shape perm(d.shape(x).size());
    std::iota(perm.begin(), perm.end(), 0);
    for (std::size_t k = perm.size(); k > 1; --k) {
      std::swap(perm[k - 1],
                perm[static_cast<std::size_t>(d.rng.below(static_cast<std::int64_t>(k)))]);
    }
    if (!d.emit(row.name, {x}, {attr("perm", perm)})) return false;
    x = d.outputs[0];
  }
  return true;
}

bool expand(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  Shape s = d.shape(x);
  for (std::int64_t& n : s) {
    if (n == 1) n = d.between(1, 5);
  }
  if (s.size() < 5 && d.chance(0.3)) s.insert(s.begin(), d.between(1, 3));
  if (elements(s) > d.max_elements()) return false;
  return d.emit(row.name, {x, d.integers(s)});
}

bool tile(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  Shape repeats(d.shape(x).size());
  std::int64_t total = elements(d.shape(x));
  for (std::int64_t& n : repeats) total *= n = d.chance(0.5) ? 1 : d.between(0, 3);
  if (total > d.max_elements()) return false;
  return d.emit(row.name, {x, d.integers(repeats)});
}

bool concat(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const std::int64_t rank = d.rank(x), axis = d.axis(rank);
  const auto at = static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
  Names in = {x};
  for (std::int64_t k = d.between(0, 3); k > 0; --k) {
    Shape s = d.shape(x);
    const std::string other = d.find([&](const Traced& t) {
      Shape o = t.value.shape();
      if (o.size() != s.size() || t.value.dtype() != d.dtype(x)) return false;
      o[at] = s[at];
      return o == s;
    });
    s[at] = d.between(0, 7);
    in.push_back(other.empty() || d.chance(0.3) ? d.fresh(d.dtype(x), s) : other);
  }
  if (d.chance(0.5)) std::reverse(in.begin(), in.end());
  return d.emit(row.name, in, {attr("axis", axis)});
}

bool split(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const std::int64_t rank = d.rank(x), axis = d.axis(rank);
  const std::int64_t n = d.shape(x)[static_cast<std::size_t>(axis < 0 ? axis + rank : axis)];
  Shape parts;
  std::int64_t left = n;
  for (std::int64_t k = d.between(1, 3); k > 0; --k) {
    parts.push_back(k == 1 ? left : d.between(0, left));
    left -= parts.back();
  }
  const std::size_t count = parts.size();
  if (d.opset >= 18 && d.chance(0.4)) {
    return d.emit(row.name, {x},
                  {attr("axis", axis), attr("num_outputs", static_cast<std::int64_t>(count))},
                  count);
  }
  if (d.opset < 13) return d.emit(row.name, {x}, {attr("axis", axis), attr("split", parts)}, count);
  return d.emit(row.name, {x, d.integers(parts)}, {attr("axis", axis)}, count);
}

// Bounds beyond the ends, negative ones and negative steps.
bool slice(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const Shape s = d.shape(x);
  Shape starts, ends, axes, steps;
  for (std::size_t k = 0; k < s.size(); ++k) {
    if (d.chance(0.4)) continue;
    const std::int64_t step = d.chance(0.6) ? 1 : d.one_of(Shape{2, 3, -1, -2});
    const std::int64_t n = s[k], a = d.between(0, std::max<std::int64_t>(n - 1, 0));
    axes.push_back(d.chance(0.3) ? static_cast<std::int64_t>(k) - std::ssize(s)
                                 : static_cast<std::int64_t>(k));
    steps.push_back(step);
    starts.push_back(step > 0 ? a : d.chance(0.3) ? INT64_MAX : n - 1);
    if (step > 0) {
      ends.push_back(d.chance(0.4) ? INT64_MAX : d.between(std::min(a + 1, n), n));
    } else {
      ends.push_back(d.chance(0.5) ? INT64_MIN : a - n - 1);
    }
  }
  return d.emit(row.name,
                {x, d.integers(starts), d.integers(ends), d.integers(axes), d.integers(steps)});
}

bool pad(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  const Shape s = d.shape(x);
  const std::string mode = d.one_of(std::vector<std::string>{
      "constant", "constant", "edge", "reflect", d.opset >= 19 ? "wrap" : "edge"});
  Shape before, after;
  for (const std::int64_t n : s) {
    const std::int64_t least =
        mode == "constant" && d.chance(0.2) ? -std::min<std::int64_t>(n / 2, 1) : 0;
    const std::int64_t most = mode == "constant" ? 3 : std::clamp<std::int64_t>(n - 1, 0, 2);
    before.push_back(d.chance(0.4) ? 0 : d.between(least, most));
    after.push_back(d.chance(0.4) ? 0 : d.between(least, most));
  }
  before.insert(before.end(), after.begin(), after.end());
  Names in = {x, d.integers(before)};
  const DType t = d.dtype(x);
  if (mode == "constant" && d.chance(0.5)) in.push_back(d.scalar(t, 1));
  return d.emit(row.name, in, {attr("mode", mode)});
}

bool crop_pad(Draw& d, const OpRow& row) {
  const std::string x = operand(d, row);
  Shape s = d.shape(x);
  for (std::int64_t& n : s) n = d.between(std::max<std::int64_t>(1, n - 2), n + 3);
  return elements(s) <= d.max_elements() && d.emit(row.name, {x, d.integers(s)});
}

bool blocks(Draw& d, const OpRow& row) {
  const bool to_space = row.name == std::string("DepthToSpace");
  const std::int64_t k = d.between(2, 3), n = d.between(1, 3), c = d.between(1, 3);
  const Shape s = to_space ? Shape{n, c * k * k, d.between(1, 4), d.between(1, 4)}
                           : Shape{n, c, k * d.between(1, 3), k * d.between(1, 3)};
  Attributes attributes = {attr("blocksize", k)};
  if (to_space && d.chance(0.7)) {
    attributes.push_back(attr("mode", std::string(d.chance(0.5) ? "CRD" : "DCR")));
  }
  return d.emit(row.name, {d.shaped(d.type(row.types), s)}, attributes);
}

bool triangle(Draw& d, const OpRow& row) {
  Names in = {operand(d, row)};
  if (d.chance(0.7)) in.push_back(d.scalar(DType::kI64, static_cast<double>(d.between(-4, 4))));
  return d.emit(row.name, in, {attr("upper", d.chance(0.5) ? 1 : 0)});
}

bool about_shape(Draw& d, const OpRow& row) {
  Attributes attributes;
  if (row.name == std::string("Shape") && d.opset >= 15 && d.chance(0.4)) {
    attributes = {attr("start", d.between(-3, 2)), attr("end", d.between(-2, 4))};
  }
  return d.emit(row.name, {operand(d, row)}, attributes);
}

bool eye(Draw& d, const OpRow& row) {
  return d.emit(row.name, {operand(d, row)}, {attr("k", d.between(-3, 3))});
}

bool filled(Draw& d, const OpRow& row) {
  HostTensor value = d.tensor(d.type(row.types), {1}, kFree);
  return d.emit(row.name, {d.integers(d.shape({0, 4}))}, {attr("value", value)});
}

bool range(Draw& d, const OpRow& row) {
  const DType t = d.type(row.types);
  const double start = static_cast<double>(d.between(-5, 5)),
               step = static_cast<double>(d.between(1, 3));
  return d.emit(row.name,
                {d.scalar(t, start), d.scalar(t, start + static_cast<double>(d.between(0, 20))),
                 d.scalar(t, step)});
}

bool constant(Draw& d, const OpRow& row) {
  return d.emit(row.name, {},
                {attr("value", d.tensor(d.type(row.types), d.shape(Ranks{}), kFree))});
}

bool dropout(Draw& d, const OpRow& row) { return d.emit(row.name, {operand(d, row)}); }

}  // namespace

std::vector<OpRow> movement_rows() {
  return {
      {"Reshape", kAll, reshape, 5},
      {"Squeeze", kAll, squeeze},
      {"Unsqueeze", kAll, unsqueeze, 1, kFree, {0, 4}},
      {"Flatten", kAll, flatten},
      {"Transpose", kAll, transpose},
      {"Expand", kAll, expand, 8},
      {"Tile", kAll, tile, 6, kFree, {1, 5}},
      {"Concat", kAll, concat, 4, kFree, {1, 5}},
      {"Split", kAll, split, 2, kFree, {1, 5}},
      {"Slice", kAll, slice, 10, kFree, {1, 5}},
      {"Pad", kAll, pad, 13, kFree, {1, 4}},
      {"CenterCropPad", kAll, crop_pad, 18, kFree, {1, 4}},
      {"DepthToSpace", kAll, blocks, 13},
      {"SpaceToDepth", kAll, blocks, 13},
      {"Trilu", kAll, triangle, 14, kFree, {2, 5}},
      {"Shape", kAll, about_shape},
      {"Size", kAll, about_shape},
      {"EyeLike", kNumbers, eye, 9, kFree, {2, 2}},
      {"ConstantOfShape", kAll, filled, 9},
      {"Range", bit(DType::kF32) | bit(DType::kF64) | kIndex | bit(DType::kI16), range, 11},
      {"Constant", kAll, constant, 9},
      {"Dropout", kFloats, dropout, 13},
  };
}

}  // namespace tessera::fuzz
