// Pools over windows and over whole images.
#include <cmath>

#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/windows.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

graph::Attrs pool_attrs(const Windows& windows, const char* kind) {
  graph::Attrs attrs = windows.attrs();
  attrs.set("kernel", windows.kernel);
  attrs.set("kind", std::string(kind));
  return attrs;
}

Result<Values> import_max_pool(Context& c) {
  TESSERA_TRY(const Windows windows, read_windows(c, std::nullopt));
  TESSERA_TRY(const std::int64_t column_major, c.integer("storage_order", 0));
  if (!c.wants(1)) {
    TESSERA_TRY(const ValueId y, c.b.add("pool", {c.in(0)}, pool_attrs(windows, "max")));
    return Values{y, kNoValue};
  }
  graph::Attrs attrs = windows.attrs();
  attrs.set("kernel", windows.kernel);
  attrs.set("column_major", std::int64_t{column_major != 0});
  return c.b.add_node("max_pool_indices", {c.in(0)}, std::move(attrs));
}

Result<Values> import_average_pool(Context& c) {
  TESSERA_TRY(graph::Attrs attrs, average_pool_attrs(c));
  TESSERA_TRY(const ValueId y, c.b.add("pool", {c.in(0)}, std::move(attrs)));
  return Values{y};
}

// |x|^p, and the p-th root of a sum of those.
Term power(Term x, std::int64_t p) {
  if (p == 1) return call("abs", x);
  if (p == 2) return x * x;
  return call("pow", call("abs", x), static_cast<double>(p));
}

Term root(Term sum, std::int64_t p) {
  if (p == 1) return sum;
  if (p == 2) return call("sqrt", sum);
  return call("pow", sum, 1.0 / static_cast<double>(p));
}

Result<std::int64_t> read_p(const Context& c) {
  TESSERA_TRY(const std::int64_t p, c.integer("p", 2));
  if (p < 1) return make_error(ErrorCode::kInvalidArgument, "p = {} is less than 1", p);
  return p;
}

Result<Values> import_lp_pool(Context& c) {
  TESSERA_TRY(const Windows windows, read_windows(c, std::nullopt));
  TESSERA_TRY(const std::int64_t p, read_p(c));
  Formula f(c);
  const Term sum = f.op("pool", {power(f.wide(0), p)}, pool_attrs(windows, "sum"));
  return f.result(root(sum, p), c.dtype(0));
}

Result<std::vector<std::int64_t>> spatial_dims(const Context& c) {
  TESSERA_TRY(const Shape sizes, spatial_sizes(c.shape(0)));
  std::vector<std::int64_t> axes;
  for (std::size_t s = 0; s < sizes.size(); ++s) axes.push_back(static_cast<std::int64_t>(s) + 2);
  return axes;
}

Result<Values> import_global_average_pool(Context& c) {
  TESSERA_TRY(const std::vector<std::int64_t> axes, spatial_dims(c));
  Formula f(c);
  return f.result({f.reduce("mean", f.in(0), axes)});
}

Result<Values> import_global_max_pool(Context& c) {
  TESSERA_TRY(const std::vector<std::int64_t> axes, spatial_dims(c));
  Formula f(c);
  return f.result({f.reduce("max", f.in(0), axes)});
}

Result<Values> import_global_lp_pool(Context& c) {
  TESSERA_TRY(const std::vector<std::int64_t> axes, spatial_dims(c));
  TESSERA_TRY(const std::int64_t p, read_p(c));
  Formula f(c);
  return f.result(root(f.reduce("sum", power(f.wide(0), p), axes), p), c.dtype(0));
}

}  // namespace

Result<graph::Attrs> average_pool_attrs(const Context& c) {
  TESSERA_TRY(const Windows windows, read_windows(c, std::nullopt));
  TESSERA_TRY(const std::int64_t include_pad, c.integer("count_include_pad", 0));
  graph::Attrs attrs = pool_attrs(windows, "avg");
  attrs.set("include_pad", std::int64_t{include_pad != 0});
  attrs.set("uncounted", windows.uncounted);
  return attrs;
}

std::vector<OnnxOp> pooling_rows() {
  return {
      {"AveragePool", 1, 1, 1, import_average_pool},
      {"GlobalAveragePool", 1, 1, 1, import_global_average_pool},
      {"GlobalLpPool", 2, 1, 1, import_global_lp_pool},
      {"GlobalMaxPool", 1, 1, 1, import_global_max_pool},
      {"LpPool", 2, 1, 1, import_lp_pool},
      {"MaxPool", 1, 1, 1, import_max_pool},
  };
}

}  // namespace tessera::onnx
