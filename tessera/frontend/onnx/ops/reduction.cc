// Reductions, plain and composed, in both forms of giving the axes; ArgMax and ArgMin.
#include <algorithm>

#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

struct Axes {
  std::vector<std::int64_t> axes;
  bool keep = true;
};

// Axes are an attribute, or an optional input in later versions. Absent or empty means all, or none
// with noop_with_empty_axes.
Result<Axes> read_axes(Context& c, bool from_input) {
  Axes read;
  TESSERA_TRY(const std::int64_t keep, c.integer("keepdims", 1));
  read.keep = keep != 0;
  std::vector<std::int64_t> given;
  if (!from_input) {
    TESSERA_TRY(given, c.integers("axes", std::vector<std::int64_t>{}));
  } else if (c.has(1)) {
    TESSERA_TRY(given, c.constant_integers(1, "axes"));
  }
  for (const std::int64_t axis : given) {
    TESSERA_TRY(const std::int64_t at, c.axis(axis, c.rank(0)));
    read.axes.push_back(at);
  }
  std::sort(read.axes.begin(), read.axes.end());
  if (!given.empty()) return read;
  TESSERA_TRY(const std::int64_t noop, c.integer("noop_with_empty_axes", 0));
  if (from_input && noop != 0) return read;
  for (std::int64_t d = 0; d < c.rank(0); ++d) read.axes.push_back(d);
  return read;
}

// Sums and roots of integers are formed in f64 and truncated.
Term computed(Formula& f, Context& c) {
  return is_float(c.dtype(0)) ? f.wide(0) : f.cast(f.in(0), DType::kF64);
}

using Compose = Term (*)(Formula& f, Term x, const Axes& axes);

Term norm1(Formula& f, Term x, const Axes& a) {
  return f.reduce("sum", call("abs", x), a.axes, a.keep);
}

Term sum_square(Formula& f, Term x, const Axes& a) {
  return f.reduce("sum", x * x, a.axes, a.keep);
}

Term norm2(Formula& f, Term x, const Axes& a) { return call("sqrt", sum_square(f, x, a)); }

Term log_sum(Formula& f, Term x, const Axes& a) {
  return call("log", f.reduce("sum", x, a.axes, a.keep));
}

// The largest element is taken out of the sum so that no exponential overflows; an infinite one
// stays in.
Term log_sum_exp(Formula& f, Term x, const Axes& a) {
  const Term most = f.reduce("max", x, a.axes);
  const Term shift = where(call("is_inf", most), 0, most);
  const Term sum = f.reduce("sum", call("exp", x - shift), a.axes, a.keep);
  return call("log", sum) + f.reshape(shift, f.shape(sum));
}

struct Row {
  const char* name;
  const char* kind;         // of a plain reduction
  Compose compose;          // of a composed one
  bool exact_for_integers;  // the composition stays in the type of integers
  int input_since;          // axes are an input from this version on
};

constexpr Row kRows[] = {
    {"ReduceL1", nullptr, norm1, true, 18},
    {"ReduceL2", nullptr, norm2, false, 18},
    {"ReduceLogSum", nullptr, log_sum, false, 18},
    {"ReduceLogSumExp", nullptr, log_sum_exp, false, 18},
    {"ReduceMax", "max", nullptr, true, 18},
    {"ReduceMean", "mean", nullptr, true, 18},
    {"ReduceMin", "min", nullptr, true, 18},
    {"ReduceProd", "prod", nullptr, true, 18},
    {"ReduceSum", "sum", nullptr, true, 13},
    {"ReduceSumSquare", nullptr, sum_square, true, 18},
};

Result<Values> import_reduce(Context& c) {
  const auto* row = std::find_if(std::begin(kRows), std::end(kRows),
                                 [&](const Row& r) { return r.name == c.node.op_type; });
  TESSERA_CHECK(row != std::end(kRows), "{} is not a reduction", c.node.op_type);
  TESSERA_TRY(const Axes axes, read_axes(c, c.version >= row->input_since));
  // Over no axis, plain reductions change nothing; composed ones still apply their functions.
  if (axes.axes.empty() && row->kind != nullptr) return Values{c.in(0)};
  Formula f(c);
  if (row->kind != nullptr) return f.result({f.reduce(row->kind, f.in(0), axes.axes, axes.keep)});
  const bool as_is = row->exact_for_integers && !is_float(c.dtype(0));
  return f.result(row->compose(f, as_is ? f.in(0) : computed(f, c), axes), c.dtype(0));
}

Result<Values> import_arg(Context& c) {
  TESSERA_TRY(const std::int64_t given, c.integer("axis", 0));
  TESSERA_TRY(const std::int64_t axis, c.axis(given, c.rank(0)));
  TESSERA_TRY(const std::int64_t keep, c.integer("keepdims", 1));
  TESSERA_TRY(const std::int64_t last, c.integer("select_last_index", 0));
  Formula f(c);
  return f.result({f.op("arg_reduce", {f.in(0)},
                        {{"kind", std::string(c.node.op_type == "ArgMax" ? "max" : "min")},
                         {"axis", axis},
                         {"keepdims", keep},
                         {"last", last}})});
}

}  // namespace

std::vector<OnnxOp> reduction_rows() {
  std::vector<OnnxOp> rows = {{"ArgMax", 1, 1, 1, import_arg}, {"ArgMin", 1, 1, 1, import_arg}};
  for (const Row& row : kRows) {
    rows.push_back({row.name, 1, 1, 1, import_reduce});
    rows.push_back({row.name, row.input_since, 1, 2, import_reduce});
  }
  return rows;
}

}  // namespace tessera::onnx
