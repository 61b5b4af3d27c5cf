// Reduction of X[R, C] along one axis.
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {
namespace {

Reducer reducer_of(const std::string& op) {
  if (op == "max") return Reducer::kMax;
  if (op == "min") return Reducer::kMin;
  if (op == "prod") return Reducer::kProd;
  if (op == "argmax") return Reducer::kArgMax;
  if (op == "argmin") return Reducer::kArgMin;
  return Reducer::kSum;  // sum, mean
}

// Sums and products of small types need a wider accumulator; comparisons are exact in the type
// itself.
Result<ElementTypes> reduce_types(const OpSpec& spec, Reducer reducer, bool mean) {
  const DType t = spec.dtype;
  if (t == DType::kBool || (mean && !is_float(t))) {
    return make_error(ErrorCode::kInvalidArgument, "{}: dtype={} is not supported for op={}",
                      spec.op, to_text(t), spec.words.at("op"));
  }
  if (reducer != Reducer::kSum && reducer != Reducer::kProd) return ElementTypes{t, t, t};
  if (is_float(t)) return float_types(spec);
  if (size_bytes(t) < 4) return ElementTypes{t, DType::kI32, DType::kI32};
  return ElementTypes{t, t, t};
}

Result<Dag> make_reduce(const OpSpec& spec) {
  const Reducer reducer = reducer_of(spec.words.at("op"));
  const bool mean = spec.words.at("op") == "mean";
  TESSERA_TRY(const ElementTypes types, reduce_types(spec, reducer, mean));
  if (spec.ints.at("axis") > 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: axis={} must be 0 or 1", spec.op,
                      spec.ints.at("axis"));
  }
  const bool along_rows = spec.ints.at("axis") == 0;
  const NamedAxes::value_type r{"r", spec.ints.at("R")}, c{"c", spec.ints.at("C")};
  const NamedAxes kept = {along_rows ? c : r}, reduced = {along_rows ? r : c};
  DagBuilder b(spec.op);
  const ir::Buffer x = b.input("X", types.in, {r.second, c.second});
  const auto element = [&](const Indices& i, const Indices& k) {
    return to_type(types.acc, at(x, along_rows ? Indices{k[0], i[0]} : Indices{i[0], k[0]}));
  };
  if (reducer == Reducer::kArgMax || reducer == Reducer::kArgMin) {
    const auto [best, index] = b.arg_reduce(
        "Y", reducer, kept, reduced,
        [&](const Indices& i, const Indices& k) { return std::pair(element(i, k), k[0]); });
    return b.build({best, index});
  }
  const ir::Buffer y = b.reduce(mean ? "sum" : "Y", reducer, kept, reduced, element);
  if (!mean) return b.build({cast_output(b, y, types.out, kept)});
  const double count = static_cast<double>(reduced[0].second);
  return b.build({b.compute("Y", kept, [&](const Indices& i) {
    return to_type(types.out, ir::div(at(y, i), ir::imm(types.acc, count)));
  })});
}

}  // namespace

OpEntry reduce_op() {
  return {.name = "reduce",
          .doc = "reduction of X[R, C] along one axis",
          .params = {{"R", kRequired, "rows"},
                     {"C", kRequired, "columns"},
                     {"axis", 1, "axis to reduce: 0 or 1", 0}},
          .words = {{"op", {"sum", "max", "min", "prod", "mean", "argmax", "argmin"}, "reduction"}},
          .make = make_reduce};
}

}  // namespace tessera::te
