#include "tessera/lang/te/ops/normalize.h"

#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {
namespace {

constexpr double kEpsilon = 1e-5;

// A row is the elements normalised together; `row` axes number the rows.
class Rows {
 public:
  Rows(DagBuilder& b, const Normalization& n) : b_(b), n_(n) {
    for (std::size_t d = 0; d < n.axes.size(); ++d) {
      (n.together[d] ? columns_ : row_).push_back(n.axes[d]);
    }
  }

  ir::Expr value(const Indices& i) const { return to_type(n_.acc, at(n_.x, i)); }

  // The row of the element at `i`.
  Indices row_of(const Indices& i) const {
    Indices row;
    for (std::size_t d = 0; d < i.size(); ++d) {
      if (!n_.together[d]) row.push_back(i[d]);
    }
    return row;
  }

  // The position of element `column` of row `row`.
  Indices element(const Indices& row, const Indices& column) const {
    Indices all;
    auto r = row.begin(), c = column.begin();
    for (const bool together : n_.together) all.push_back(together ? *c++ : *r++);
    return all;
  }

  // Stage `name`[row] = reducer over the row of value(position, row).
  ir::Buffer reduce(const std::string& name, Reducer reducer,
                    const std::function<ir::Expr(const Indices&, const Indices&)>& value) const {
    return b_.reduce(n_.prefix + name, reducer, row_, columns_,
                     [&](const Indices& row, const Indices& column) {
                       return value(element(row, column), row);
                     });
  }

  ir::Buffer compute(const std::string& name,
                     const std::function<ir::Expr(const Indices&)>& value) const {
    return b_.compute(n_.prefix + name, row_, value);
  }

  // Stage `ex` and others over all elements.
  ir::Buffer elements(const std::string& name,
                      const std::function<ir::Expr(const Indices&)>& value) const {
    return b_.compute(n_.prefix + name, n_.axes, value);
  }

  ir::Buffer last(const std::function<ir::Expr(const Indices&)>& value) const {
    return b_.compute(n_.last, n_.axes,
                      [&](const Indices& i) { return to_type(n_.out, value(i)); });
  }

  // The mean of a row sum.
  ir::Expr mean(const ir::Expr& sum) const {
    double count = 1;
    for (const auto& [name, extent] : columns_) count *= static_cast<double>(extent);
    return ir::div(sum, ir::imm(n_.acc, count));
  }

  // Stage rstd[row] = 1 / sqrt(mean of squares + epsilon).
  ir::Buffer rstd(const ir::Buffer& squares, double epsilon) const {
    return compute("rstd", [&](const Indices& i) {
      const ir::Expr variance = mean(at(squares, i)) + ir::imm(n_.acc, epsilon);
      return ir::div(ir::imm(n_.acc, 1), ir::call(ir::Intrinsic::kSqrt, {variance}));
    });
  }

  ir::Expr factor(const ir::Buffer& buffer, const Indices& i) const {
    return to_type(n_.acc, at_broadcast(buffer, i));
  }

 private:
  DagBuilder& b_;
  const Normalization& n_;
  NamedAxes row_, columns_;
};

// X[R, C] with its rows normalised; the first input of the Dag.
Result<Normalization> matrix_rows(DagBuilder& b, const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  const std::int64_t r = spec.ints.at("R"), c = spec.ints.at("C");
  return Normalization{.x = b.input("X", types.in, {r, c}),
                       .axes = {{"r", r}, {"c", c}},
                       .together = {false, true},
                       .acc = types.acc,
                       .out = types.out,
                       .prefix = "",
                       .last = "Y"};
}

Result<Dag> make_softmax(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Normalization n, matrix_rows(b, spec));
  return b.build({softmax_stages(b, n)});
}

Result<Dag> make_layernorm(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Normalization n, matrix_rows(b, spec));
  const ir::Buffer gamma = b.constant("gamma", n.x->dtype, {n.axes[1].second});
  const ir::Buffer beta = b.constant("beta", n.x->dtype, {n.axes[1].second});
  return b.build({layernorm_stages(b, n, kEpsilon, gamma, beta)});
}

Result<Dag> make_rmsnorm(const OpSpec& spec) {
  DagBuilder b(spec.op);
  TESSERA_TRY(const Normalization n, matrix_rows(b, spec));
  const ir::Buffer gamma = b.constant("gamma", n.x->dtype, {n.axes[1].second});
  return b.build({rmsnorm_stages(b, n, kEpsilon, gamma)});
}

std::vector<OpParam> row_params() {
  return {{"R", kRequired, "rows"}, {"C", kRequired, "columns, normalised together"}};
}

}  // namespace

ir::Buffer softmax_stages(DagBuilder& b, const Normalization& n) {
  const Rows rows(b, n);
  const ir::Buffer mx = rows.reduce(
      "mx", Reducer::kMax, [&](const Indices& i, const Indices&) { return rows.value(i); });
  const ir::Buffer ex = rows.elements("ex", [&](const Indices& i) {
    return ir::call(ir::Intrinsic::kExp, {rows.value(i) - at(mx, rows.row_of(i))});
  });
  const ir::Buffer sm =
      rows.reduce("sm", Reducer::kSum, [&](const Indices& i, const Indices&) { return at(ex, i); });
  // One division per row: dividing each element would cost as much as its exponential.
  const ir::Buffer inv = rows.compute(
      "inv", [&](const Indices& row) { return ir::div(ir::imm(n.acc, 1), at(sm, row)); });
  return rows.last([&](const Indices& i) { return at(ex, i) * at(inv, rows.row_of(i)); });
}

ir::Buffer layernorm_stages(DagBuilder& b, const Normalization& n, double epsilon,
                            const ir::Buffer& scale, const ir::Buffer& bias) {
  const Rows rows(b, n);
  const ir::Buffer sum = rows.reduce(
      "sum", Reducer::kSum, [&](const Indices& i, const Indices&) { return rows.value(i); });
  const ir::Buffer mean =
      rows.compute("mean", [&](const Indices& row) { return rows.mean(at(sum, row)); });
  const ir::Buffer sq = rows.reduce("sq", Reducer::kSum, [&](const Indices& i, const Indices& row) {
    const ir::Expr centred = rows.value(i) - at(mean, row);
    return centred * centred;
  });
  const ir::Buffer rstd = rows.rstd(sq, epsilon);
  return rows.last([&](const Indices& i) {
    const Indices row = rows.row_of(i);
    ir::Expr y = (rows.value(i) - at(mean, row)) * at(rstd, row);
    if (scale) y = y * rows.factor(scale, i);
    if (bias) y = y + rows.factor(bias, i);
    return y;
  });
}

ir::Buffer rmsnorm_stages(DagBuilder& b, const Normalization& n, double epsilon,
                          const ir::Buffer& scale) {
  const Rows rows(b, n);
  const ir::Buffer sq = rows.reduce("sq", Reducer::kSum, [&](const Indices& i, const Indices&) {
    return rows.value(i) * rows.value(i);
  });
  const ir::Buffer rstd = rows.rstd(sq, epsilon);
  return rows.last([&](const Indices& i) {
    const ir::Expr y = rows.value(i) * at(rstd, rows.row_of(i));
    return scale ? y * rows.factor(scale, i) : y;
  });
}

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
