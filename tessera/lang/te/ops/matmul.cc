// matmul, bmm and dense: one product stage C[.., i, j] = sum(k), and the bias and relu of dense.
#include "tessera/lang/te/ops/contract.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/float_parts.h"
#include "tessera/lang/te/ops/ops.h"
#include "tessera/lang/te/ops/rounded_product.h"
#include "tessera/support/ceil_div.h"

namespace tessera::te {
namespace {

Result<bool> takes_parts(const OpSpec& spec) {
  if (spec.words.at("algo") != kPartsAlgorithm) return false;
  if (spec.dtype == DType::kF32) return true;
  return make_error(ErrorCode::kInvalidArgument, "{}: algo={} is of f32", spec.op, kPartsAlgorithm);
}

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
  const char *left = ta ? "ki" : "ik", *right = tb ? "jk" : "kj";
  TESSERA_TRY(const bool parts, takes_parts(spec));
  if (parts) {
    const ir::Buffer a = parts_stage(b, "A.parts", lhs), w = parts_stage(b, "B.parts", rhs);
    return b.build({contract_parts_stage(b, "C", a, left, w, right, "ij").buffer});
  }
  const Stage c = contract_stage(b, "C", lhs, left, rhs, right, "ij", types.acc);
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

constexpr const char *kPlain = "plain", *kInt8 = "int8", *kInt4 = "int4",
                     *kRounded8 = "int8-rounded", *kRounded4 = "int4-rounded";
constexpr std::int64_t kGroup = 32;  // elements with a scale in common

// X W^T, where W is stored as integers and X is rounded to bytes.
Result<Stage> rounded_product(const OpSpec& spec, DagBuilder& b, const ir::Buffer& x) {
  const std::int64_t n = spec.ints.at("N"), k = spec.ints.at("K");
  if (spec.dtype != DType::kF32 || k % kRoundedBlock != 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: storage={} is of f32 and needs a K divisible by {}", spec.op,
                      spec.words.at("storage"), kRoundedBlock);
  }
  RoundedWeights w;
  w.bits = spec.words.at("storage") == kRounded4 ? 4 : 8;
  const std::int64_t blocks = k / kRoundedBlock;
  w.data = b.constant("W", DType::kU8, {n, blocks, kRoundedBlock * w.bits / 8});
  w.scale = b.constant("scale", DType::kF32, {n, blocks});
  w.offset = std::int64_t{1} << (w.bits - 1);
  return rounded_product_stage(b, "C", x, w);
}

// X W^T, where W is stored as integers.
Result<Stage> stored_product(const OpSpec& spec, DagBuilder& b, const ir::Buffer& x, DType acc) {
  const std::int64_t n = spec.ints.at("N"), k = spec.ints.at("K");
  Storage storage{.bits = spec.words.at("storage") == kInt4 ? 4 : 0,
                  .axis = 1,
                  .group = kGroup,
                  .scale = {},
                  .zero = {}};
  if (!is_float(spec.dtype)) {
    return make_error(ErrorCode::kInvalidArgument, "{}: storage={} is of floats", spec.op,
                      spec.words.at("storage"));
  }
  if (k % storage.per_word() != 0) {
    return make_error(ErrorCode::kInvalidArgument, "{}: storage={} needs a K divisible by {}",
                      spec.op, kInt4, storage.per_word());
  }
  storage.offset = storage.bits == 4 ? 8 : 0;
  const ir::Buffer w =
      b.constant("W", storage.bits == 4 ? DType::kI32 : DType::kI8, {n, k / storage.per_word()});
  storage.scale = b.constant("scale", DType::kF32, {n, ceil_div(k, kGroup)});
  return stored_contract_stage(b, "C", x, "ik", w, "jk", "ij", acc, storage);
}

Result<Stage> dense_product(const OpSpec& spec, DagBuilder& b, const ElementTypes& types) {
  const Shape shape = {spec.ints.at("N"), spec.ints.at("K")};
  const ir::Buffer x = b.input("X", types.in, {spec.ints.at("M"), spec.ints.at("K")});
  TESSERA_TRY(const bool parts, takes_parts(spec));
  const std::string& storage = spec.words.at("storage");
  if (parts && storage != kPlain) {
    return make_error(ErrorCode::kInvalidArgument, "{}: storage={} needs algo=direct", spec.op,
                      storage);
  }
  if (storage == kRounded8 || storage == kRounded4) return rounded_product(spec, b, x);
  if (storage != kPlain) return stored_product(spec, b, x, types.acc);
  if (!parts)
    return contract_stage(b, "C", x, "ik", b.constant("W", types.in, shape), "jk", "ij", types.acc);
  const ir::Buffer w = b.constant("W", DType::kBF16, parts_shape(shape));
  return contract_parts_stage(b, "C", parts_stage(b, "X.parts", x), "ik", w, "jk", "ij");
}

Result<Dag> make_dense(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, mac_types(spec));
  DagBuilder b(spec.op);
  TESSERA_TRY(const Stage c, dense_product(spec, b, types));
  const ir::Buffer bias = b.constant("bias", types.out, {spec.ints.at("N")});
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
// Of dense with bf16x6, W is given as its parts: make them with float_parts.
OpWord algorithm() { return {"algo", {"direct", kPartsAlgorithm}, "algorithm", true}; }

}  // namespace

OpEntry matmul_op() {
  return {.name = "matmul",
          .doc = "C = A B",
          .params = {kM,
                     kN,
                     kK,
                     {"TA", 0, "A is stored transposed", 0},
                     {"TB", 0, "B is stored transposed", 0}},
          .words = {algorithm()},
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
          .words = {algorithm(),
                    {"storage",
                     {kPlain, kInt8, kInt4, kRounded8, kRounded4},
                     "W by scales for groups of 32; -rounded: X to bytes as well",
                     true}},
          .make = make_dense,
          .flops = dense_flops};
}

}  // namespace tessera::te
