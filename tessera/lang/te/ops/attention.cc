// attention: softmax(scale Q K^T) V of every head, where a causal query sees no later key.
#include <cmath>
#include <limits>

#include "tessera/lang/te/ops/contract.h"
#include "tessera/lang/te/ops/element_types.h"
#include "tessera/lang/te/ops/normalize.h"
#include "tessera/lang/te/ops/ops.h"

namespace tessera::te {
namespace {

Result<Dag> make_attention(const OpSpec& spec) {
  TESSERA_TRY(const ElementTypes types, float_types(spec));
  const std::int64_t heads = spec.ints.at("B"), m = spec.ints.at("M"), n = spec.ints.at("N"),
                     d = spec.ints.at("D");
  const bool causal = spec.words.at("mask") == "causal";
  DagBuilder b(spec.op);
  const ir::Buffer q = b.input("Q", types.in, {heads, m, d});
  const ir::Buffer k = b.input("K", types.in, {heads, n, d});
  const ir::Buffer v = b.input("V", types.in, {heads, n, d});
  const Stage s = contract_stage(b, "S", q, "bik", k, "bjk", "bij", types.acc);
  const ir::Expr scale = ir::imm(types.acc, 1 / std::sqrt(static_cast<double>(d)));
  const ir::Buffer x = b.compute("X", s.axes, [&](const Indices& i) {
    ir::Expr score = to_type(types.in, at(s.buffer, i) * scale);
    if (!causal) return score;
    // The last query sees all keys.
    const ir::Expr seen = ir::le(i[2], shifted(i[1], n - m));
    return ir::select(seen, score, ir::imm(types.in, -std::numeric_limits<double>::infinity()));
  });
  const ir::Buffer p = softmax_stages(b, {.x = x,
                                          .axes = s.axes,
                                          .together = {false, false, true},
                                          .acc = types.acc,
                                          .out = types.in,
                                          .prefix = "",
                                          .last = "P"});
  const Stage y = contract_stage(b, "Y", p, "bij", v, "bjd", "bid", types.acc);
  return b.build({cast_output(b, y.buffer, types.out, y.axes)});
}

}  // namespace

OpEntry attention_op() {
  return {.name = "attention",
          .doc = "Y[b] = softmax(Q[b] K[b]^T / sqrt(D)) V[b]",
          .params = {{"B", kRequired, "heads of all images"},
                     {"M", kRequired, "queries"},
                     {"N", kRequired, "keys"},
                     {"D", kRequired, "size of a head"}},
          .words = {{"mask", {"none", "causal"}, "keys that a query does not see"}},
          .make = make_attention};
}

}  // namespace tessera::te
