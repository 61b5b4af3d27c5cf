// matmul, bmm and dense: one product stage C[.., i, j] = sum(k), and the bias and relu of dense.
#include "tessera/te/ops/contract.h"
#include "tessera/te/ops/element_types.h"
#include "tessera/te/ops/ops.h"

namespace tessera::te {
namespace {

Result<Dag> make_matmul(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  const std::int64_t m = spec.ints.at("M"), n = spec.ints.at("N"), k = spec.ints.at("K");
  const bool ta = spec.ints.at("TA") != 0, tb = spec.ints.at("TB") != 0;
  if (spec.ints.at("TA") > 1 || spec.ints.at("TB") > 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: TA and TB are 0 or 1", spec.op);
  }
  DagBuilder b(spec.op);
  const ir::Buffer lhs = b.input("A", types.in, ta ? Shape{k, m} : Shape{m, k});
  const ir::Buffer rhs = b.input("B", types.in, tb ? Shape{n, k} : Shape{k, n});
  const Stage c =
      contract_stage(b, "C", lhs, ta ? "ki" : "ik", rhs, tb ? "jk" : "kj", "ij", types.acc);
  return b.build({cast_output(b, c.buffer, types.out, c.axes)});
}

Result<Dag> make_bmm(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  const std::int64_t batch = spec.ints.at("B"), m = spec.ints.at("M"), n = spec.ints.at("N"),
                     k = spec.ints.at("K");
  DagBuilder b(spec.op);
  const ir::Buffer lhs = b.input("A", types.in, {batch, m, k});
  const ir::Buffer rhs = b.input("B", types.in, {batch, k, n});
  const Stage c = contract_stage(b, "C", lhs, "bik", rhs, "bkj", "bij", types.acc);
  return b.build({cast_output(b, c.buffer, types.out, c.axes)});
}

Result<Dag> make_dense(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  const std::int64_t m = spec.ints.at("M"), n = spec.ints.at("N"), k = spec.ints.at("K");
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {m, k});
  const ir::Buffer w = b.constant("W", types.in, {n, k});
  const ir::Buffer bias = b.constant("bias", types.out, {n});
  const Stage c = contract_stage(b, "C", x, "ik", w, "jk", "ij", types.acc);
  const ir::Buffer y = b.compute("Y", c.axes, [&](const Indices& i) {
    const ir::Expr sum = at(c.buffer, i) + to_type(types.acc, at(bias, {i[1]}));
    return to_type(types.out, ir::max(sum, ir::imm(types.acc, 0)));
  });
  return b.build({y});
}

double dense_flops(const OpSpec& spec) {
  return 2.0 * static_cast<double>(spec.ints.at("M")) * static_cast<double>(spec.ints.at("N")) *
         static_cast<double>(spec.ints.at("K"));
}

constexpr OpParam kM{"M", kRequired, "rows of the output"};
constexpr OpParam kN{"N", kRequired, "columns of the output"};
constexpr OpParam kK{"K", kRequired, "length of the sum"};

}  // namespace

OpEntry matmul_op() {
  return {.name = "matmul",
          .doc = "C = A B",
          .params = {kM,
                     kN,
                     kK,
                     {"TA", 0, "A is stored transposed", 0},
                     {"TB", 0, "B is stored transposed", 0}},
          .words = {},
          .make = make_matmul};
}

OpEntry bmm_op() {
  return {.name = "bmm",
          .doc = "C[b] = A[b] B[b]",
          .params = {{"B", kRequired, "batch"}, kM, kN, kK},
          .words = {},
          .make = make_bmm};
}

OpEntry dense_op() {
  return {.name = "dense",
          .doc = "Y = relu(X W^T + bias)",
          .params = {kM, kN, kK},
          .words = {},
          .make = make_dense,
          .flops = dense_flops};
}

}  // namespace tessera::te
