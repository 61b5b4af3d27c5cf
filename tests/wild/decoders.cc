// Language and speech decoders: caches, branches on an input, loops that end when the data says so.
#include <cmath>

#include "tests/wild/wild.h"

namespace tessera::wild {
namespace {

constexpr std::int64_t kHeads = 2, kSize = 4, kWidth = kHeads * kSize;

// One head's part [rows, kSize] of [1, kHeads, rows, kSize].
Array head(const Array& a, std::int64_t h) {
  const std::int64_t rows = a.dim(2);
  return make({rows, kSize}, [&](std::int64_t i) { return a[h * rows * kSize + i]; });
}

// [rows, kWidth] as [1, kHeads, rows, kSize].
Array by_head(const Array& a) {
  const std::int64_t rows = a.dim(0);
  return make({1, kHeads, rows, kSize}, [&](std::int64_t i) {
    const std::int64_t h = i / (rows * kSize), row = i / kSize % rows;
    return a[row * kWidth + h * kSize + i % kSize];
  });
}

// a, then b, along the sequence of [1, kHeads, rows, kSize].
Array append(const Array& a, const Array& b) {
  const std::int64_t n = a.dim(2), all = n + b.dim(2);
  return make({1, kHeads, all, kSize}, [&](std::int64_t i) {
    const std::int64_t h = i / (all * kSize), row = i / kSize % all, e = i % kSize;
    return row < n ? a[(h * n + row) * kSize + e] : b[(h * (all - n) + row - n) * kSize + e];
  });
}

// Attention of q over k and v, all [1, kHeads, rows, kSize], as [rows, kWidth].
Array attend(const Array& q, const Array& k, const Array& v, double cap = 0) {
  Array y{{q.dim(2), kWidth}, std::vector<double>(static_cast<std::size_t>(q.dim(2) * kWidth))};
  for (std::int64_t h = 0; h < kHeads; ++h) {
    const Array scores = map(matmul(head(q, h), transpose(head(k, h))), [&](double s) {
      s /= std::sqrt(static_cast<double>(kSize));
      return cap > 0 ? cap * std::tanh(s / cap) : s;
    });
    const Array one = matmul(softmax(scores), head(v, h));
    for (std::int64_t i = 0; i < q.dim(2) * kSize; ++i) {
      y[i / kSize * kWidth + h * kSize + i % kSize] = one[i];
    }
  }
  return y;
}

// A step of decoding as exporters write it: one token, keys and values of three before it.
WildModel decoder_with_cache() {
  Rng rng(301);
  Writer g(17);
  const Array x = random({1, 1, kWidth}, rng), wq = random({kWidth, kWidth}, rng);
  const Array wk = random({kWidth, kWidth}, rng), wv = random({kWidth, kWidth}, rng);
  const Array past_k = random({1, kHeads, 3, kSize}, rng), past_v = random(past_k.shape, rng);
  const std::string in = g.input("x", x);
  const auto project = [&](const Array& w) {
    const std::string rows = g.add("MatMul", {in, g.weight(w)});
    const std::string split = g.add("Reshape", {rows, g.integers({1, 1, kHeads, kSize})});
    return g.add("Transpose", {split}, {attr("perm", Integers{0, 2, 1, 3})});
  };
  const std::string q = project(wq);
  const auto joined = [&](const char* name, const Array& past, const Array& w) {
    const std::string now = project(w);
    return g.add("Concat", {g.input(name, past), now}, {attr("axis", std::int64_t{2})});
  };
  const std::string k = joined("past_key", past_k, wk), v = joined("past_value", past_v, wv);
  const std::string turned = g.add("Transpose", {k}, {attr("perm", Integers{0, 1, 3, 2})});
  const std::string scores = g.add(
      "Div", {g.add("MatMul", {q, turned}), g.weight(make({}, [](std::int64_t) { return 2; }))});
  const std::string mixed =
      g.add("MatMul", {g.add("Softmax", {scores}, {attr("axis", std::int64_t{-1})}), v});
  const std::string y =
      g.add("Reshape", {g.add("Transpose", {mixed}, {attr("perm", Integers{0, 2, 1, 3})}),
                        g.integers({1, 1, kWidth})});
  const Array row = reshape(x, {1, kWidth});
  const Array all_k = append(past_k, by_head(matmul(row, wk)));
  const Array all_v = append(past_v, by_head(matmul(row, wv)));
  const Array want = attend(by_head(matmul(row, wq)), all_k, all_v);
  return g.finish("decoder_with_cache", {y, k, v},
                  {to_tensor(reshape(want, {1, 1, kWidth})), to_tensor(all_k), to_tensor(all_v)});
}

// The same by the operators of opset 23: rotated queries and keys, capped scores, a cache.
WildModel decoder_of_opset_23() {
  Rng rng(302);
  Writer g(23);
  const Array q = random({1, kHeads, 1, kSize}, rng), k = random(q.shape, rng);
  const Array v = random(q.shape, rng), past_k = random({1, kHeads, 2, kSize}, rng);
  const Array past_v = random(past_k.shape, rng);
  const Array angles = make(
      {8, 2}, [](std::int64_t i) { return static_cast<double>(i / 2) * (i % 2 == 0 ? 1.0 : 0.1); });
  const std::string cosine = g.weight(map(angles, [](double a) { return std::cos(a); }));
  const std::string sine = g.weight(map(angles, [](double a) { return std::sin(a); }));
  const std::string position =
      g.input("position", make({1, 1}, [](auto) { return 2; }), DType::kI64);
  const auto rotate = [&](const std::string& x) {
    return g.add("RotaryEmbedding", {x, cosine, sine, position});
  };
  const std::string rotated_q = rotate(g.input("q", q)), rotated_k = rotate(g.input("k", k));
  const std::string y = g.add("Attention",
                              {rotated_q, rotated_k, g.input("v", v), "",
                               g.input("past_key", past_k), g.input("past_value", past_v)},
                              {attr("softcap", 0.5F)}, 3);
  const std::string present = g.output(1);
  const auto turn = [&](const Array& x) {
    return make(x.shape, [&](std::int64_t i) {
      const std::int64_t first = i / kSize * kSize, e = i % 2;
      const double a = angles[4 + e], low = x[first + e], high = x[first + 2 + e];
      return i % kSize < 2 ? std::cos(a) * low - std::sin(a) * high
                           : std::sin(a) * low + std::cos(a) * high;
    });
  };
  const Array keys = append(past_k, turn(k));
  const Array mixed = attend(turn(q), keys, append(past_v, v), 0.5);
  return g.finish("decoder_of_opset_23", {y, present},
                  {to_tensor(by_head(mixed)), to_tensor(keys)});
}

// Keys come from the cache or from the encoder, as an input says.
WildModel speech_decoder_with_a_branch(bool use_cache) {
  Rng rng(303);
  Writer g(16);
  const Array q = random({1, kHeads, 1, kSize}, rng), cache = random({1, kHeads, 3, kSize}, rng);
  const Array encoded = random({1, kHeads, 5, kSize}, rng);
  const std::string queries = g.input("q", q);
  g.input("cache", cache);
  g.input("encoded", encoded);
  const std::string flag =
      g.input("use_cache", make({1}, [&](auto) { return use_cache ? 1 : 0; }), DType::kBool);
  const auto branch = [](const char* from, const char* out) {
    return onnx::testing::make_graph({}, {onnx::testing::make_node("Identity", {from}, {out})},
                                     {out});
  };
  const std::string k =
      g.add("If", {flag},
            {onnx::testing::body_attribute("then_branch", branch("cache", "cached_keys")),
             onnx::testing::body_attribute("else_branch", branch("encoded", "encoded_keys"))});
  const std::string scores =
      g.add("MatMul", {queries, g.add("Transpose", {k}, {attr("perm", Integers{0, 1, 3, 2})})});
  const std::string half = g.add("Mul", {scores, g.weight(make({}, [](auto) { return 0.5; }))});
  const std::string y =
      g.add("MatMul", {g.add("Softmax", {half}, {attr("axis", std::int64_t{-1})}), k});
  const Array& keys = use_cache ? cache : encoded;
  return g.finish(use_cache ? "speech_decoder_cached" : "speech_decoder_first_step", {y},
                  {to_tensor(by_head(attend(q, keys, keys)))}, "the condition follows from data",
                  "use_cache");
}

// The next token is the best of the last one's row, until token 0 comes.
WildModel greedy_loop() {
  constexpr std::int64_t kTokens = 6;
  Rng rng(304);
  Writer g(16);
  const Array table = random({kTokens, kTokens}, rng);
  const std::string rows = g.weight(table);
  const std::string start = g.input("start", make({1}, [](auto) { return 3; }), DType::kI64);
  const std::string most = g.weight(make({}, [](auto) { return 10; }), DType::kI64);
  const std::string yes = g.weight(make({}, [](auto) { return 1; }), DType::kBool);
  const std::string end = g.weight(make({}, [](auto) { return 0; }), DType::kI64);
  using onnx::testing::make_node;
  onnx::Graph body = onnx::testing::make_graph(
      {onnx::testing::value_info("i", DType::kI64, {}),
       onnx::testing::value_info("go", DType::kBool, {}),
       onnx::testing::value_info("token", DType::kI64, {1})},
      {make_node("Gather", {rows, "token"}, {"row"}, {attr("axis", std::int64_t{0})}),
       make_node("ArgMax", {"row"}, {"next"},
                 {attr("axis", std::int64_t{1}), attr("keepdims", std::int64_t{0})}),
       make_node("Equal", {"next", end}, {"ends"}), make_node("Not", {"ends"}, {"on"}),
       make_node("Squeeze", {"on"}, {"more"}), make_node("Identity", {"next"}, {"shown"})},
      {"more", "next", "shown"});
  g.add("Loop", {most, yes, start}, {onnx::testing::body_attribute("body", std::move(body))}, 2);
  const std::string last = g.output(0), tokens = g.output(1);
  Array said{{0, 1}, {}};
  double token = 3;
  while (said.shape[0] < 10 && (said.shape[0] == 0 || token != 0)) {
    const auto row = static_cast<std::int64_t>(token) * kTokens;
    token = static_cast<double>(argmax(table, row, kTokens));
    said.data.push_back(token);
    ++said.shape[0];
  }
  return g.finish("greedy_loop", {last, tokens},
                  {to_tensor(make({1}, [&](auto) { return token; }), DType::kI64),
                   to_tensor(said, DType::kI64)},
                  "the condition after an iteration", "start");
}

// Positions and a mask as long as an input says.
WildModel length_from_an_input() {
  Rng rng(305);
  Writer g(15);
  const Array table = random({10, 3}, rng);
  const std::string length = g.input("length", make({}, [](auto) { return 4; }), DType::kI64);
  const auto scalar = [&](double v) {
    return g.weight(make({}, [v](auto) { return v; }), DType::kI64);
  };
  const std::string positions = g.add("Range", {scalar(0), length, scalar(1)});
  const std::string rows = g.add("Gather", {g.weight(table), positions});
  const std::string size = g.add("Unsqueeze", {length, g.integers({0})});
  HostTensor two(DType::kF32, {1});
  two.set_float(0, 2);
  const std::string twos = g.add("ConstantOfShape", {size}, {attr("value", two)});
  const std::string y = g.add("MatMul", {g.add("Unsqueeze", {twos, g.integers({0})}), rows});
  const Array want = make({1, 3}, [&](std::int64_t j) {
    double sum = 0;
    for (std::int64_t i = 0; i < 4; ++i) sum += 2 * table[i * 3 + j];
    return sum;
  });
  return g.finish("length_from_an_input", {y}, {to_tensor(want)}, "length", "length");
}

// Tokens with small scores are dropped, the rest transformed and put back.
WildModel token_pruning() {
  Rng rng(306);
  Writer g(17);
  const Array x = random({6, 4}, rng), scores = random({6}, rng), w = random({4, 4}, rng);
  const std::string tokens = g.input("x", x);
  const std::string keep =
      g.add("Greater", {g.input("scores", scores), g.weight(make({}, [](auto) { return 0; }))});
  const std::string where = g.add("Transpose", {g.add("NonZero", {keep})});
  const std::string kept = g.add("GatherND", {tokens, where});
  const std::string changed = g.add("MatMul", {kept, g.weight(w)});
  const std::string y = g.add("ScatterND", {tokens, where, changed});
  const Array all = matmul(x, w);
  const Array want =
      make({6, 4}, [&](std::int64_t i) { return scores[i / 4] > 0 ? all[i] : x[i]; });
  return g.finish("token_pruning", {y}, {to_tensor(want)}, "non-zero elements");
}

}  // namespace

std::vector<WildModel> decoder_models() {
  return {decoder_with_cache(),
          decoder_of_opset_23(),
          speech_decoder_with_a_branch(true),
          speech_decoder_with_a_branch(false),
          greedy_loop(),
          length_from_an_input(),
          token_pruning()};
}

}  // namespace tessera::wild
