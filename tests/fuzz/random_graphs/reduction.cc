// Reductions, and what runs along one axis.
#include "draw.h"

namespace tessera::fuzz {
namespace {

// Axes by input or by attribute, as the version has it; some, none or all of them.
bool reduce(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), row.ranks, row.range);
  const std::int64_t rank = d.rank(x);
  Shape axes;
  for (std::int64_t a = 0; a < rank; ++a) {
    if (d.chance(0.5)) axes.push_back(d.chance(0.3) ? a - rank : a);
  }
  Attributes attributes = {attr("keepdims", d.chance(0.5) ? 1 : 0)};
  Names in = {x};
  const bool by_input = d.opset >= (row.name == std::string("ReduceSum") ? 13 : 18);
  if (by_input) {
    if (d.chance(0.9)) in.push_back(d.integers(axes));
    if (d.chance(0.2)) attributes.push_back(attr("noop_with_empty_axes", 1));
  } else if (!axes.empty()) {
    attributes.push_back(attr("axes", axes));
  }
  return d.emit(row.name, in, attributes);
}

bool arg_reduce(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 5});
  return d.emit(row.name, {x},
                {attr("axis", d.axis(d.rank(x))), attr("keepdims", d.chance(0.5) ? 1 : 0),
                 attr("select_last_index", d.chance(0.3) ? 1 : 0)});
}

bool along_axis(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 5}, row.range);
  return d.emit(row.name, {x}, {attr("axis", d.axis(d.rank(x)))});
}

bool cumulate(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4}, row.range);
  const std::string axis =
      d.scalar(d.chance(0.5) ? DType::kI64 : DType::kI32, static_cast<double>(d.axis(d.rank(x))));
  return d.emit(row.name, {x, axis},
                {attr("exclusive", d.chance(0.4) ? 1 : 0), attr("reverse", d.chance(0.4) ? 1 : 0)});
}

// Ties are no matter of rounding: elements are told apart by the oracle's shadows.
bool top_k(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  const std::int64_t axis = d.axis(d.rank(x));
  const Shape s = d.shape(x);
  const std::int64_t n = s[static_cast<std::size_t>(axis < 0 ? axis + d.rank(x) : axis)];
  return d.emit(row.name, {x, d.integers({d.between(0, n)})},
                {attr("axis", axis), attr("largest", d.chance(0.5) ? 1 : 0)}, 2);
}

}  // namespace

std::vector<OpRow> reduction_rows() {
  constexpr Types kSums = kFloats | kIndex | bit(DType::kU32) | bit(DType::kU64);
  return {
      {"ReduceL1", kSums, reduce},
      {"ReduceL2", kFloats, reduce, 1, within(-100, 100)},
      {"ReduceLogSum", kFloats, reduce, 1, within(0.2, 100)},
      {"ReduceLogSumExp", kFloats, reduce},
      {"ReduceMax", kSums | kBytes, reduce, 13},
      {"ReduceMean", kSums, reduce, 1, within(-1000, 1000)},
      {"ReduceMin", kSums | kBytes, reduce, 13},
      {"ReduceProd", kSums, reduce, 1, within(-1.5, 1.5)},
      {"ReduceSum", kSums, reduce},
      {"ReduceSumSquare", kSums, reduce, 1, within(-100, 100)},
      {"ArgMax", kNumbers, arg_reduce, 12},
      {"ArgMin", kNumbers, arg_reduce, 12},
      {"Softmax", kFloats, along_axis, 1, within(-50, 50)},
      {"LogSoftmax", kFloats, along_axis, 1, within(-50, 50)},
      {"Hardmax", kFloats, along_axis},
      {"CumSum", kFloats | kIndex, cumulate, 14},
      {"CumProd", kFloats | kIndex, cumulate, 26, within(-1.2, 1.2)},
      {"TopK", kNumbers, top_k, 11},
  };
}

}  // namespace tessera::fuzz
