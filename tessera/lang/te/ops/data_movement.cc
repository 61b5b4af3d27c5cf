// gather and transpose: operations that only move data, of any type.
#include <algorithm>

#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/ops/ops.h"
#include "tessera/support/host_tensor.h"

namespace tessera::te {
namespace {

Result<Dag> make_gather(const OpSpec& spec) {
  const std::int64_t rows = spec.ints.at("R"), columns = spec.ints.at("C"),
                     count = spec.ints.at("I");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", spec.dtype, {rows, columns});
  const ir::Buffer idx = b.input("idx", DType::kI64, {count});
  return b.build({b.compute("Y", {{"i", count}, {"c", columns}}, [&](const Indices& i) {
    return at(x, {at(idx, {i[0]}), i[1]});
  })});
}

Result<Dag> make_transpose(const OpSpec& spec) {
  const std::string& perm = spec.words.at("perm");
  std::string sorted = perm;
  std::sort(sorted.begin(), sorted.end());
  if (sorted != "012") {
    return make_error(ErrorCode::kInvalidArgument, "{}: perm={} is not a permutation of 012",
                      spec.op, perm);
  }
  const Shape shape = {spec.ints.at("A"), spec.ints.at("B"), spec.ints.at("C")};
  const char* names[] = {"i", "j", "k"};
  NamedAxes axes;
  for (std::size_t d = 0; d < 3; ++d)
    axes.emplace_back(names[d], shape[static_cast<std::size_t>(perm[d] - '0')]);
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", spec.dtype, shape);
  return b.build({b.compute("Y", axes, [&](const Indices& i) {
    Indices from(3);
    for (std::size_t d = 0; d < 3; ++d) from[static_cast<std::size_t>(perm[d] - '0')] = i[d];
    return at(x, from);
  })});
}

}  // namespace

OpEntry gather_op() {
  return {.name = "gather",
          .doc = "Y[i] = X[idx[i]], rows of a table; idx is i64",
          .params = {{"R", kRequired, "rows of the table"},
                     {"C", kRequired, "columns"},
                     {"I", kRequired, "indices"}},
          .words = {},
          .make = make_gather};
}

OpEntry transpose_op() {
  return {.name = "transpose",
          .doc = "dimension d of Y is dimension perm[d] of X[A, B, C]",
          .params = {{"A", kRequired, "size"}, {"B", kRequired, "size"}, {"C", kRequired, "size"}},
          .words = {{"perm", {}, "permutation, e.g. 021"}},
          .make = make_transpose};
}

}  // namespace tessera::te
