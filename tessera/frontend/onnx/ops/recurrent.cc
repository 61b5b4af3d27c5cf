// RNN, GRU and LSTM, unrolled over time. The products with the inputs of all steps are one
// contraction; what remains in a step is the product with the state.
#include <functional>
#include <optional>

#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/gate_activations.h"
#include "tessera/frontend/onnx/ops/integers.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

// Inputs in the order of the operators; those after kInitialH exist for LSTM only, the last four
// for DynamicQuantizeLSTM.
enum Input : std::size_t {
  kX,
  kW,
  kR,
  kB,
  kLengths,
  kInitialH,
  kInitialC,
  kPeepholes,
  kWScale,
  kWZero,
  kRScale,
  kRZero
};

struct Sizes {
  std::int64_t steps = 0, batch = 0, inputs = 0, hidden = 0, directions = 1;
  std::int64_t gates = 1;
  bool batch_first = false;
  bool reverse = false;    // the only direction runs backwards
  bool quantized = false;  // weights are bytes, and transposed
};

struct State {
  Term h, c;  // [batch, hidden]; c for LSTM only
};

// What one direction of a layer reads.
struct Direction {
  Term r;  // [gates * hidden, hidden]; not of quantized weights
  // Products of rows with the weights of the input and of the state.
  std::function<Term(Term rows)> times_w, times_r;
  Term w_bias, r_bias;  // [gates * hidden]
  Term peepholes;       // [3 * hidden], LSTM only
  bool has_bias = false, has_peepholes = false;
  std::vector<GateActivation> activations;
};

// One step: gates of the input [batch, gates * hidden] and the old state to the new one.
using Cell = std::function<State(Term gates, const State& old)>;

// Scales and zero points of quantized weights: one per direction, or one per column too.
Result<void> check_scales(const Context& c, const Sizes& s) {
  for (const Input i : {kWScale, kWZero, kRScale, kRZero}) {
    const bool needed = i == kWScale || i == kRScale;
    if (!c.has(i) && needed) return invalid("input {} is missing", static_cast<std::size_t>(i));
    if (!c.has(i) || c.shape(i) == Shape{s.directions} ||
        c.shape(i) == Shape{s.directions, s.gates * s.hidden}) {
      continue;
    }
    return invalid("input {} is {}", static_cast<std::size_t>(i), to_text(c.shape(i)));
  }
  return {};
}

Result<Sizes> read_sizes(const Context& c, std::int64_t gates, bool quantized) {
  Sizes s;
  s.gates = gates;
  s.quantized = quantized;
  TESSERA_TRY(const std::int64_t layout, c.integer("layout", 0));
  TESSERA_TRY(const std::string direction, c.word("direction", "forward"));
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional") {
    return invalid("direction {} is unknown", direction);
  }
  s.batch_first = layout != 0;
  s.reverse = direction == "reverse";
  s.directions = direction == "bidirectional" ? 2 : 1;
  if (c.rank(kX) != 3 || c.rank(kW) != 3 || c.rank(kR) != 3)
    return invalid("X, W and R need rank 3");
  const Shape& x = c.shape(kX);
  s.steps = x[s.batch_first ? 1 : 0];
  s.batch = x[s.batch_first ? 0 : 1];
  s.inputs = x[2];
  s.hidden = c.shape(kR)[quantized ? 1 : 2];
  TESSERA_TRY(const std::int64_t hidden, c.integer("hidden_size", s.hidden));
  const std::int64_t rows = gates * s.hidden;
  const auto weights = [&](std::int64_t columns) {
    return quantized ? Shape{s.directions, columns, rows} : Shape{s.directions, rows, columns};
  };
  if (hidden != s.hidden || c.shape(kW) != weights(s.inputs) || c.shape(kR) != weights(s.hidden)) {
    return invalid("W {} and R {} do not fit {} inputs, hidden_size {} and {} direction(s)",
                   to_text(c.shape(kW)), to_text(c.shape(kR)), s.inputs, hidden, s.directions);
  }
  const auto expect = [&](std::size_t i, const Shape& shape) -> Result<void> {
    if (!c.has(i) || c.shape(i) == shape) return {};
    return invalid("input {} is {}, not {}", i, to_text(c.shape(i)), to_text(shape));
  };
  const Shape state = s.batch_first ? Shape{s.batch, s.directions, s.hidden}
                                    : Shape{s.directions, s.batch, s.hidden};
  TESSERA_DO(expect(kB, {s.directions, 2 * rows}));
  TESSERA_DO(expect(kLengths, {s.batch}));
  TESSERA_DO(expect(kInitialH, state));
  TESSERA_DO(expect(kInitialC, state));
  TESSERA_DO(expect(kPeepholes, {s.directions, 3 * s.hidden}));
  if (quantized) TESSERA_DO(check_scales(c, s));
  return s;
}

// True when every sequence is known to have all steps.
bool all_full(const Context& c, const Sizes& s) {
  if (!c.has(kLengths)) return true;
  const HostTensor* lengths = c.b.constant_of(c.in(kLengths));
  if (!lengths || !is_int(lengths->dtype())) return false;
  for (std::int64_t i = 0; i < lengths->size(); ++i) {
    if (lengths->get_int(i) < s.steps) return false;
  }
  return true;
}

class Layer {
 public:
  Layer(Context& c, Formula& f, const Sizes& sizes) : c_(c), f_(f), s_(sizes) {
    x_ = f.in(kX);
    if (s_.batch_first) x_ = transpose(f, x_, {1, 0, 2});
  }

  Direction direction(std::int64_t d, const std::vector<GateActivation>& all) {
    Direction one;
    if (s_.quantized) {
      one.times_w = byte_product(kW, kWScale, d);
      one.times_r = byte_product(kR, kRScale, d);
    } else {
      one.r = pick(f_, f_.in(kR), 0, d);
      one.times_w = [this, w = pick(f_, f_.in(kW), 0, d)](Term x) {
        return contract(f_, x, "bik", w, "jk", "bij");
      };
      one.times_r = [this, r = one.r](Term h) { return contract(f_, h, "ik", r, "jk", "ij"); };
    }
    one.has_bias = c_.has(kB);
    if (one.has_bias) {
      const Term both = pick(f_, f_.in(kB), 0, d);
      one.w_bias = slice(f_, both, 0, 0, rows());
      one.r_bias = slice(f_, both, 0, rows(), rows());
    }
    one.has_peepholes = c_.has(kPeepholes);
    if (one.has_peepholes) one.peepholes = pick(f_, f_.in(kPeepholes), 0, d);
    const std::size_t count = all.size() / static_cast<std::size_t>(s_.directions);
    const auto first = all.begin() + static_cast<std::ptrdiff_t>(count) * d;
    one.activations.assign(first, first + static_cast<std::ptrdiff_t>(count));
    return one;
  }

  // Runs direction d; `bias` is what the gates of the input start with (null: nothing).
  void run(std::int64_t d, const Direction& direction, const Term& bias, const Cell& cell) {
    Term gates = direction.times_w(x_);
    if (bias.formula) gates = gates + bias;
    State state{initial(kInitialH, d), initial(kInitialC, d)};
    const bool backwards = s_.reverse || d == 1;
    const bool full = all_full(c_, s_);
    std::vector<Term> outputs(static_cast<std::size_t>(s_.steps));
    for (std::int64_t k = 0; k < s_.steps && !f_.failed(); ++k) {
      const std::int64_t t = backwards ? s_.steps - 1 - k : k;
      State next = cell(pick(f_, gates, 0, t), state);
      Term shown = next.h;
      if (!full) {
        const Term valid = before_end(t);
        shown = where(valid, next.h, 0.0);
        next.h = where(valid, next.h, state.h);
        if (next.c.formula) next.c = where(valid, next.c, state.c);
      }
      outputs[static_cast<std::size_t>(t)] = f_.reshape(shown, {1, 1, s_.batch, s_.hidden});
      state = next;
    }
    if (s_.steps > 0) sequences_.push_back(concat(f_, outputs, 0));
    last_h_.push_back(f_.reshape(state.h, {1, s_.batch, s_.hidden}));
    if (state.c.formula) last_c_.push_back(f_.reshape(state.c, {1, s_.batch, s_.hidden}));
  }

  Result<std::vector<ValueId>> result() {
    Term y = s_.steps > 0
                 ? concat(f_, sequences_, 1)
                 : f_.constant(HostTensor(c_.dtype(kX), {0, s_.directions, s_.batch, s_.hidden}));
    if (s_.batch_first) y = transpose(f_, y, {2, 0, 1, 3});
    std::vector<Term> outputs = {y, last(last_h_)};
    if (!last_c_.empty()) outputs.push_back(last(last_c_));
    return f_.result(outputs);
  }

 private:
  std::int64_t rows() const { return s_.gates * s_.hidden; }

  // Rows times weights [columns, rows] of bytes; the rows are quantized on the way, all of a call
  // with one scale. The zero point follows the scale.
  std::function<Term(Term)> byte_product(Input weights, Input scale, std::int64_t d) {
    const Term w = pick(f_, f_.in(weights), 0, d), factor = pick(f_, f_.in(scale), 0, d);
    const std::size_t zero_point = static_cast<std::size_t>(scale) + 1;
    const ValueId zero = c_.has(zero_point) ? pick(f_, f_.in(zero_point), 0, d).id : kNoValue;
    return [this, w, factor, zero](Term x) {
      if (f_.failed()) return x;
      const Quantized q = dynamic_quantize(f_, x);
      const auto product = integer_matmul(f_, c_, {q.data, w, q.zero_point.id, zero});
      if (!product) {
        f_.fail(product.error());
        return x;
      }
      return f_.cast(*product, DType::kF32) * (q.scale * factor);
    };
  }

  Term initial(Input i, std::int64_t d) {
    const bool lstm = s_.gates == 4;
    if (i == kInitialC && !lstm) return {};
    if (c_.has(i)) return pick(f_, f_.in(i), s_.batch_first ? 1 : 0, d);
    return f_.constant(HostTensor(c_.dtype(kX), {s_.batch, s_.hidden}));
  }

  // [batch, 1]: whether step t lies within each sequence.
  Term before_end(std::int64_t t) {
    const Term lengths = f_.cast(f_.in(kLengths), DType::kI64);
    const Term step = f_.number(DType::kI64, static_cast<double>(t));
    return f_.reshape(call("lt", step, lengths), {s_.batch, 1});
  }

  Term last(const std::vector<Term>& parts) {
    const Term all = concat(f_, parts, 0);
    return s_.batch_first ? transpose(f_, all, {1, 0, 2}) : all;
  }

  Context& c_;
  Formula& f_;
  const Sizes s_;
  Term x_;  // [steps, batch, inputs]
  std::vector<Term> sequences_, last_h_, last_c_;
};

// Gate number `g` of [batch, gates * hidden] (or of a vector).
Term gate(Formula& f, Term all, std::int64_t g, std::int64_t hidden) {
  return slice(f, all, f.shape(all).size() - 1, g * hidden, hidden);
}

Term times_state(Formula& f, Term h, Term r) { return contract(f, h, "ik", r, "jk", "ij"); }

Term sum_of_biases(const Direction& d) { return d.has_bias ? d.w_bias + d.r_bias : Term{}; }

// Reads the node, makes a cell for each direction and runs it. `make` also says with what bias the
// gates of the input start.
template <class Make>
Result<std::vector<ValueId>> import_layer(Context& c, std::int64_t gates,
                                          const std::vector<std::string>& activations,
                                          const Make& make, bool quantized = false) {
  TESSERA_TRY(const Sizes sizes, read_sizes(c, gates, quantized));
  TESSERA_TRY(const std::vector<GateActivation> functions,
              read_gate_activations(c, activations, static_cast<std::size_t>(sizes.directions)));
  Formula f(c);
  Layer layer(c, f, sizes);
  for (std::int64_t d = 0; d < sizes.directions; ++d) {
    const Direction direction = layer.direction(d, functions);
    const auto [bias, cell] = make(f, direction, sizes);
    layer.run(d, direction, bias, cell);
  }
  return layer.result();
}

Result<std::vector<ValueId>> import_rnn(Context& c) {
  const auto make = [](Formula& f, const Direction& d, const Sizes&) {
    const Cell cell = [&f, d](Term x, const State& old) {
      return State{d.activations[0](x + times_state(f, old.h, d.r)), {}};
    };
    return std::pair{sum_of_biases(d), cell};
  };
  return import_layer(c, 1, {"Tanh"}, make);
}

// Gates z, r, h.
Result<std::vector<ValueId>> import_gru(Context& c) {
  TESSERA_TRY(const std::int64_t linear_before_reset, c.integer("linear_before_reset", 0));
  const auto linear_first = [](Formula& f, const Direction& d, const Sizes& s) {
    const Cell cell = [&f, d, hidden = s.hidden](Term x, const State& old) {
      Term h = times_state(f, old.h, d.r);
      if (d.has_bias) h = h + d.r_bias;
      const Term z = d.activations[0](gate(f, x, 0, hidden) + gate(f, h, 0, hidden));
      const Term r = d.activations[0](gate(f, x, 1, hidden) + gate(f, h, 1, hidden));
      const Term n = d.activations[1](gate(f, x, 2, hidden) + r * gate(f, h, 2, hidden));
      return State{(f.number(f.dtype(z), 1) - z) * n + z * old.h, {}};
    };
    return std::pair{d.has_bias ? d.w_bias : Term{}, cell};
  };
  const auto reset_first = [](Formula& f, const Direction& d, const Sizes& s) {
    const Term r_gates = slice(f, d.r, 0, 0, 2 * s.hidden);
    const Term r_new = slice(f, d.r, 0, 2 * s.hidden, s.hidden);
    const Cell cell = [&f, d, r_gates, r_new, hidden = s.hidden](Term x, const State& old) {
      const Term h = times_state(f, old.h, r_gates);
      const Term z = d.activations[0](gate(f, x, 0, hidden) + gate(f, h, 0, hidden));
      const Term r = d.activations[0](gate(f, x, 1, hidden) + gate(f, h, 1, hidden));
      const Term n = d.activations[1](gate(f, x, 2, hidden) + times_state(f, r * old.h, r_new));
      return State{(f.number(f.dtype(z), 1) - z) * n + z * old.h, {}};
    };
    return std::pair{sum_of_biases(d), cell};
  };
  if (linear_before_reset != 0) return import_layer(c, 3, {"Sigmoid", "Tanh"}, linear_first);
  return import_layer(c, 3, {"Sigmoid", "Tanh"}, reset_first);
}

// Gates i, o, f, c; peepholes i, o, f.
Result<std::vector<ValueId>> lstm(Context& c, bool quantized) {
  TESSERA_TRY(const std::int64_t input_forget, c.integer("input_forget", 0));
  const auto make = [&](Formula& f, const Direction& d, const Sizes& s) {
    const Cell cell = [&f, d, hidden = s.hidden, input_forget](Term x, const State& old) {
      const Term all = x + d.times_r(old.h);
      const auto peek = [&](Term gates, std::int64_t g, Term state) {
        return d.has_peepholes ? gates + gate(f, d.peepholes, g, hidden) * state : gates;
      };
      const auto& [sigma, candidate, output] =
          std::tie(d.activations[0], d.activations[1], d.activations[2]);
      const Term i = sigma(peek(gate(f, all, 0, hidden), 0, old.c));
      const Term forget = input_forget != 0 ? f.number(f.dtype(i), 1) - i
                                            : sigma(peek(gate(f, all, 2, hidden), 2, old.c));
      const Term memory = forget * old.c + i * candidate(gate(f, all, 3, hidden));
      const Term o = sigma(peek(gate(f, all, 1, hidden), 1, memory));
      return State{o * output(memory), memory};
    };
    return std::pair{sum_of_biases(d), cell};
  };
  return import_layer(c, 4, {"Sigmoid", "Tanh", "Tanh"}, make, quantized);
}

Result<std::vector<ValueId>> import_lstm(Context& c) { return lstm(c, false); }

Result<std::vector<ValueId>> import_dynamic_quantize_lstm(Context& c) {
  if (c.dtype(kX) != DType::kF32) return invalid("cannot quantize {}", to_text(c.dtype(kX)));
  for (const Input i : {kW, kR}) {
    if (c.dtype(i) != DType::kI8 && c.dtype(i) != DType::kU8) {
      return invalid("weights of {} instead of i8 or u8", to_text(c.dtype(i)));
    }
  }
  return lstm(c, true);
}

}  // namespace

std::vector<OnnxOp> recurrent_rows() {
  return {
      {"DynamicQuantizeLSTM", 1, 3, 12, import_dynamic_quantize_lstm, kMicrosoft},
      {"GRU", 7, 3, 6, import_gru},
      {"LSTM", 7, 3, 8, import_lstm},
      {"RNN", 7, 3, 6, import_rnn},
  };
}

}  // namespace tessera::onnx
