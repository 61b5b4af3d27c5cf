// softmax, layernorm and rmsnorm over the rows of X[R, C]. Every stage but Y computes in the
// accumulation type.
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"

namespace tessera::te {
namespace {

constexpr double kEpsilon = 1e-5;

struct Rows {
  ElementTypes types;
  std::int64_t r, c;
  ir::Buffer x;
  NamedAxes all, row, column;

  ir::Expr value(const ir::Expr& i, const ir::Expr& j) const {
    return to_type(types.acc, at(x, {i, j}));
  }
};

Result<Rows> make_rows(DagBuilder& b, const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  const std::int64_t r = spec.ints.at("R"), c = spec.ints.at("C");
  return Rows{types,      r,         c, b.input("X", types.in, {r, c}), {{"r", r}, {"c", c}},
              {{"r", r}}, {{"c", c}}};
}

// The mean of a row sum.
ir::Expr over_columns(const Rows& rows, const ir::Expr& sum) {
  return ir::div(sum, ir::imm(rows.types.acc, static_cast<double>(rows.c)));
}

// Stage rstd[r] = 1 / sqrt(squares / C + epsilon).
ir::Buffer rstd_stage(DagBuilder& b, const Rows& rows, const ir::Buffer& squares) {
  const DType acc = rows.types.acc;
  return b.compute("rstd", rows.row, [&](const Indices& i) {
    const ir::Expr variance = over_columns(rows, at(squares, i)) + ir::imm(acc, kEpsilon);
    return ir::div(ir::imm(acc, 1), ir::call(ir::Intrinsic::kSqrt, {variance}));
  });
}

Result<Dag> make_softmax(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Rows rows, make_rows(b, spec));
  const ir::Buffer mx =
      b.reduce("mx", Reducer::kMax, rows.row, rows.column,
               [&](const Indices& i, const Indices& k) { return rows.value(i[0], k[0]); });
  const ir::Buffer ex = b.compute("ex", rows.all, [&](const Indices& i) {
    return ir::call(ir::Intrinsic::kExp, {rows.value(i[0], i[1]) - at(mx, {i[0]})});
  });
  const ir::Buffer sm =
      b.reduce("sm", Reducer::kSum, rows.row, rows.column, [&](const Indices& i, const Indices& k) {
        return at(ex, {i[0], k[0]});
      });
  // One division per row: dividing each element would cost as much as its exponential.
  const ir::Buffer inv = b.compute("inv", rows.row, [&](const Indices& i) {
    return ir::div(ir::imm(rows.types.acc, 1), at(sm, i));
  });
  return b.build({b.compute("Y", rows.all, [&](const Indices& i) {
    return to_type(rows.types.out, at(ex, i) * at(inv, {i[0]}));
  })});
}

Result<Dag> make_layernorm(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Rows rows, make_rows(b, spec));
  const ir::Buffer gamma = b.constant("gamma", rows.types.in, {rows.c});
  const ir::Buffer beta = b.constant("beta", rows.types.in, {rows.c});
  const DType acc = rows.types.acc;
  const ir::Buffer sum =
      b.reduce("sum", Reducer::kSum, rows.row, rows.column,
               [&](const Indices& i, const Indices& k) { return rows.value(i[0], k[0]); });
  const ir::Buffer mean =
      b.compute("mean", rows.row, [&](const Indices& i) { return over_columns(rows, at(sum, i)); });
  const ir::Buffer sq =
      b.reduce("sq", Reducer::kSum, rows.row, rows.column, [&](const Indices& i, const Indices& k) {
        const ir::Expr centred = rows.value(i[0], k[0]) - at(mean, i);
        return centred * centred;
      });
  const ir::Buffer rstd = rstd_stage(b, rows, sq);
  return b.build({b.compute("Y", rows.all, [&](const Indices& i) {
    const ir::Expr normal = (rows.value(i[0], i[1]) - at(mean, {i[0]})) * at(rstd, {i[0]});
    return to_type(rows.types.out,
                   normal * to_type(acc, at(gamma, {i[1]})) + to_type(acc, at(beta, {i[1]})));
  })});
}

Result<Dag> make_rmsnorm(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Rows rows, make_rows(b, spec));
  const ir::Buffer gamma = b.constant("gamma", rows.types.in, {rows.c});
  const ir::Buffer sq =
      b.reduce("sq", Reducer::kSum, rows.row, rows.column, [&](const Indices& i, const Indices& k) {
        const ir::Expr v = rows.value(i[0], k[0]);
        return v * v;
      });
  const ir::Buffer rstd = rstd_stage(b, rows, sq);
  return b.build({b.compute("Y", rows.all, [&](const Indices& i) {
    const ir::Expr normal = rows.value(i[0], i[1]) * at(rstd, {i[0]});
    return to_type(rows.types.out, normal * to_type(rows.types.acc, at(gamma, {i[1]})));
  })});
}

std::vector<OpParam> row_params() {
  return {{"R", kRequired, "rows"}, {"C", kRequired, "columns, normalised together"}};
}

}  // namespace

OpEntry softmax_op() {
  return {.name = "softmax",
          .doc = "softmax of each row",
          .params = row_params(),
          .words = {},
          .make = make_softmax};
}

OpEntry layernorm_op() {
  return {.name = "layernorm",
          .doc = "layer normalisation of each row, epsilon 1e-5",
          .params = row_params(),
          .words = {},
          .make = make_layernorm};
}

OpEntry rmsnorm_op() {
  return {.name = "rmsnorm",
          .doc = "root-mean-square normalisation of each row, epsilon 1e-5",
          .params = row_params(),
          .words = {},
          .make = make_rmsnorm};
}

}  // namespace tessera::te
