// MoE and QMoE of com.microsoft: each token goes through the few experts whose scores are largest.
// All experts are computed, and those that were not chosen weigh nothing.
#include <array>
#include <cmath>

#include "tessera/frontend/onnx/ops/attention_parts.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

// Where the operands of one of the three products are among the inputs.
struct Layer {
  std::size_t weights, bias, scales = 0, zeros = 0;
  const char* bits = nullptr;
};
using Layers = std::array<Layer, 3>;

constexpr Layers kPlain = {Layer{2, 3}, Layer{4, 5}, Layer{6, 7}};
constexpr Layers kQuantized = {Layer{2, 4, 3, 11, "fc1_expert_weight_bits"},
                               Layer{5, 7, 6, 12, "fc2_expert_weight_bits"},
                               Layer{8, 10, 9, 13, "fc3_expert_weight_bits"}};
constexpr std::size_t kRouterWeights = 14;  // of QMoE

struct Mixture {
  std::int64_t tokens = 0, width = 0, experts = 0, chosen = 1;
  std::int64_t fusion = 0;  // 0: the gate's factor is layer 3; 1: every other column; 2: half
  std::string activation;
  double alpha = 1, beta = 0, limit = 0;  // 0: no limit
  bool normalised = false;
};

Result<void> read_activation(const Context& c, Mixture& m) {
  TESSERA_TRY(m.activation, c.word("activation_type", "relu"));
  TESSERA_TRY(m.alpha, c.number("activation_alpha", 1.0));
  TESSERA_TRY(m.beta, c.number("activation_beta", 0.0));
  TESSERA_TRY(m.limit, c.number("swiglu_limit", 0.0));
  TESSERA_TRY(m.fusion, c.integer("swiglu_fusion", 0));
  for (const char* known : {"relu", "gelu", "silu", "identity", "swiglu"}) {
    if (m.activation == known) {
      if (m.fusion >= 0 && m.fusion <= 2) return {};
      return invalid("swiglu_fusion is {}", m.fusion);
    }
  }
  return invalid("activation_type '{}' is not relu, gelu, silu, identity or swiglu", m.activation);
}

Result<Mixture> read_mixture(const Context& c) {
  Mixture m;
  const Shape x = c.shape(0);
  if ((x.size() != 2 && x.size() != 3) || c.rank(1) != 2)
    return invalid("input {} and router_probs {}", to_text(x), to_text(c.shape(1)));
  m.width = x.back();
  m.experts = c.shape(1)[1];
  m.tokens = c.shape(1)[0];
  if (m.experts < 1 || m.width < 1 || elements(Shape(x.begin(), x.end() - 1)) != m.tokens)
    return invalid("router_probs {} for input {}", to_text(c.shape(1)), to_text(x));
  TESSERA_TRY(m.chosen, c.integer("k", 1));
  if (m.chosen < 1 || m.chosen > m.experts)
    return invalid("k={} of {} experts", m.chosen, m.experts);
  TESSERA_TRY(const std::int64_t normalised, c.integer("normalize_routing_weights", 0));
  m.normalised = normalised != 0;
  TESSERA_TRY(const std::int64_t sparse, c.integer("use_sparse_mixer", 0));
  if (sparse != 0) return make_error(ErrorCode::kUnsupported, "use_sparse_mixer");
  TESSERA_DO(read_activation(c, m));
  return m;
}

// What each expert weighs for each token: [tokens, experts].
Term routing(Formula& f, const Mixture& m, Term scores, Term given) {
  if (f.failed()) return scores;
  const Term at = counting(f, m.experts);
  const Term earlier = call("lt", at, f.reshape(at, {m.experts, 1}));
  const Term own = f.reshape(scores, {m.tokens, m.experts, 1});
  const Term other = f.reshape(scores, {m.tokens, 1, m.experts});
  const Term tied = call("and", call("eq", own, other), earlier);
  const Term above = call("or", call("lt", own, other), tied);
  const Term rank = f.reduce("sum", f.cast(above, DType::kI32), {2}, false);
  const Term shares = where(call("lt", rank, static_cast<double>(m.chosen)), given, 0);
  return m.normalised ? shares / f.reduce("sum", shares, {1}) : shares;
}

// The elements of rows of few bits, which begin with a byte, the first one lowest.
HostTensor unpacked_rows(const HostTensor& packed, std::int64_t columns, std::int64_t bits) {
  Shape shape = packed.shape();
  const std::int64_t row_bytes = shape.back();
  shape.back() = columns;
  HostTensor out(DType::kU8, shape);
  const auto* bytes = packed.as<std::uint8_t>();
  auto* to = out.as<std::uint8_t>();
  const unsigned mask = (1U << bits) - 1;
  for (std::int64_t i = 0; i < out.size(); ++i) {
    const std::int64_t column = i % columns;
    const unsigned byte = bytes[i / columns * row_bytes + column * bits / 8];
    to[i] = static_cast<std::uint8_t>((byte >> (column * bits % 8)) & mask);
  }
  return out;
}

// A constant of rows of `columns` elements of few bits.
Result<HostTensor> read_rows(const Context& c, std::size_t i, const char* what, const Shape& rows,
                             std::int64_t columns, std::int64_t bits) {
  TESSERA_TRY(const HostTensor* packed, c.constant(i, what));
  Shape expected = rows;
  expected.push_back(ceil_div(columns * bits, 8));
  if (packed->dtype() != DType::kU8 || packed->shape() != expected)
    return invalid("{} {}[{}], u8[{}] needed", what, to_text(packed->dtype()),
                   to_text(packed->shape()), to_text(expected));
  return unpacked_rows(*packed, columns, bits);
}

class Experts {
 public:
  Experts(Formula& f, Context& c, const Mixture& m, const Layers& layers)
      : f_(f), c_(c), m_(m), layers_(layers) {}

  Result<Term> run(Term shares) {
    const DType t = f_.dtype(shares);
    const Term x = f_.reshape(f_.wide(0), {m_.tokens, m_.width});
    TESSERA_TRY(const Term first, product(0, x));
    TESSERA_TRY(const Term inner, activated(first, x));
    if (f_.failed()) return f_.error();
    const std::int64_t depth = f_.shape(inner)[2];
    TESSERA_TRY(const Term w, weights(1, depth));
    if (!f_.failed() && f_.shape(w)[1] != m_.width)
      return invalid("experts of width {} for {}", f_.shape(w)[1], m_.width);
    const Term by_expert = f_.reshape(transpose(f_, shares, {1, 0}), {m_.experts, m_.tokens, 1});
    Term y = contract(f_, f_.cast(inner, t) * by_expert, "eti", w, "ehi", "th");
    if (c_.has(layers_[1].bias))
      y = y + contract(f_, shares, "te", f_.widen(bias(1, m_.width)), "eh", "th");
    return y;
  }

 private:
  // Weights of layer `i`: [experts, columns, depth].
  Result<Term> weights(std::size_t i, std::int64_t depth) {
    const Layer& layer = layers_[i];
    if (!c_.has(layer.weights)) return invalid("input {} is missing", layer.weights);
    const Shape shape = c_.shape(layer.weights);
    if (shape.size() != 3 || shape[0] != m_.experts || shape[1] < 1)
      return invalid("weights {} of {} experts", to_text(shape), m_.experts);
    if (layer.bits != nullptr) return stored_weights(layer, shape[1], depth);
    if (shape[2] != depth) return invalid("weights {} for a depth of {}", to_text(shape), depth);
    return f_.wide(layer.weights);
  }

  Result<Term> stored_weights(const Layer& layer, std::int64_t columns, std::int64_t depth) {
    TESSERA_TRY(const std::int64_t all, c_.integer("expert_weight_bits", 4));
    TESSERA_TRY(const std::int64_t bits, c_.integer(layer.bits, all));
    if (bits != 2 && bits != 4 && bits != 8)
      return make_error(ErrorCode::kUnsupported, "weights of {} bits", bits);
    TESSERA_TRY(const std::int64_t given, c_.integer("block_size", 0));
    const std::int64_t group = given > 0 ? given : depth, blocks = ceil_div(depth, group);
    const Shape rows = {m_.experts, columns};
    TESSERA_TRY([[maybe_unused]] const std::int64_t fits,
                checked_elements({m_.experts, columns, depth}, DType::kF32));
    TESSERA_TRY(HostTensor q, read_rows(c_, layer.weights, "weights", rows, depth, bits));
    if (!c_.has(layer.scales) || elements(c_.shape(layer.scales)) != m_.experts * columns * blocks)
      return invalid("input {} does not hold scales of {} blocks", layer.scales,
                     m_.experts * columns * blocks);
    HostTensor zero(DType::kU8, {1, 1, 1});
    zero.set_int(0, std::int64_t{1} << (bits - 1));
    if (c_.has(layer.zeros)) {
      const bool by_block = given > 0;
      TESSERA_TRY(zero,
                  read_rows(c_, layer.zeros, "zero points", by_block ? rows : Shape{m_.experts},
                            by_block ? blocks : columns, bits));
      zero = zero.reshaped({m_.experts, columns, blocks});
    }
    const Term scale = f_.reshape(f_.in(layer.scales), {m_.experts, columns, blocks});
    return f_.op("dequantize", {f_.constant(std::move(q)), scale, f_.constant(std::move(zero))},
                 {{"axis", std::int64_t{2}},
                  {"group", group},
                  {"bits", bits},
                  {"to", std::string(to_text(compute_type(c_.dtype(0))))}});
  }

  Term bias(std::size_t i, std::int64_t columns) {
    return f_.reshape(f_.in(layers_[i].bias), {m_.experts, columns});
  }

  // x [tokens, width] through layer `i`: [experts, tokens, columns].
  Result<Term> product(std::size_t i, Term x) {
    TESSERA_TRY(const Term w, weights(i, m_.width));
    Term y = contract(f_, x, "th", w, "eih", "eti");
    if (f_.failed()) return f_.error();
    const std::int64_t columns = f_.shape(y)[2];
    if (c_.has(layers_[i].bias))
      y = y + f_.reshape(f_.widen(bias(i, columns)), {m_.experts, 1, columns});
    return y;
  }

  Result<Term> activated(Term first, Term x) {
    const bool gated = m_.activation == "swiglu";
    if (f_.failed()) return f_.error();
    const std::int64_t columns = f_.shape(first)[2], half = columns / 2;
    const bool third = c_.has(layers_[2].weights);
    if (gated && m_.fusion != 0) {
      if (third) return invalid("swiglu_fusion={} with a third layer", m_.fusion);
      if (columns % 2 != 0) return invalid("a gate of {} columns", columns);
      const std::int64_t step = m_.fusion == 1 ? 2 : 1;
      return swiglu(slice(f_, first, 2, 0, half, step),
                    slice(f_, first, 2, step == 2 ? 1 : half, half, step));
    }
    if (!third) {
      if (gated) return invalid("swiglu without a third layer");
      return function(first);
    }
    TESSERA_TRY(const Term factor, product(2, x));
    return gated ? swiglu(first, factor) : function(first) * factor;
  }

  Term swiglu(Term gate, Term factor) const {
    if (m_.limit > 0) {
      gate = call("min", gate, m_.limit);
      factor = call("max", call("min", factor, m_.limit), -m_.limit);
    }
    return gate * call("sigmoid", gate * m_.alpha) * (factor + m_.beta);
  }

  Term function(Term x) const {
    if (m_.activation == "relu") return call("max", x, 0);
    if (m_.activation == "silu") return x * call("sigmoid", x);
    if (m_.activation == "identity") return x;
    const double factor = std::sqrt(2 / std::acos(-1.0));
    return x * 0.5 * (call("tanh", (x + x * x * x * 0.044715) * factor) + 1);
  }

  Formula& f_;
  Context& c_;
  const Mixture& m_;
  const Layers& layers_;
};

Result<Values> mixture(Context& c, const Mixture& m, const Layers& layers, bool given_weights) {
  Formula f(c);
  const Term scores = f.wide(1);
  const Term given = given_weights ? f.wide(kRouterWeights)
                                   : f.op("softmax", {scores}, {{"axis", std::int64_t{1}}});
  const Term shares = routing(f, m, scores, given);
  if (f.failed()) return f.error();
  TESSERA_TRY(const Term y, Experts(f, c, m, layers).run(shares));
  return f.result({f.cast(f.reshape(y, c.shape(0)), c.dtype(0))});
}

Result<Values> import_moe(Context& c) {
  TESSERA_TRY(const Mixture m, read_mixture(c));
  return mixture(c, m, kPlain, false);
}

Result<Values> import_qmoe(Context& c) {
  TESSERA_TRY(const std::string type, c.word("quant_type", "int"));
  if (type != "int") return make_error(ErrorCode::kUnsupported, "quant_type {}", type);
  TESSERA_TRY(const std::int64_t prepacked, c.integer("weights_prepacked", 0));
  if (prepacked > 0) return make_error(ErrorCode::kUnsupported, "weights_prepacked");
  for (std::size_t i = kRouterWeights + 1; i < c.inputs.size(); ++i) {
    if (c.has(i)) return make_error(ErrorCode::kUnsupported, "scales of activations (input {})", i);
  }
  const bool given = c.has(kRouterWeights);
  if (given && c.shape(kRouterWeights) != c.shape(1))
    return invalid("router_weights {} and router_probs {}", to_text(c.shape(kRouterWeights)),
                   to_text(c.shape(1)));
  TESSERA_TRY(Mixture m, read_mixture(c));
  // ONNX Runtime takes the softmax of the chosen scores alone, whatever the attribute says.
  if (!given) m.normalised = true;
  return mixture(c, m, kQuantized, given);
}

}  // namespace

std::vector<OnnxOp> expert_rows() {
  return {
      {"MoE", 1, 3, 8, import_moe, kMicrosoft},
      {"QMoE", 1, 3, 21, import_qmoe, kMicrosoft},
  };
}

}  // namespace tessera::onnx
