// Recurrent layers and attention: forms that the backend cases do not cover.
#include <cmath>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"
#include "tests/onnx/node_model.h"

namespace tessera::onnx::testing {
namespace {

using Numbers = std::vector<double>;
using Words = std::vector<std::string>;

HostTensor ones(const Shape& shape) {
  HostTensor t(DType::kF32, shape);
  for (std::int64_t i = 0; i < t.size(); ++i) t.set_float(i, 1);
  return t;
}

HostTensor lengths(const std::vector<std::int64_t>& values) {
  HostTensor t(DType::kI32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i)
    t.set_int(static_cast<std::int64_t>(i), values[i]);
  return t;
}

// A layer that adds up its inputs: h_t = x_t + h_{t-1}.
NodeCase adding_rnn(const std::string& direction, std::int64_t directions) {
  Words activations(static_cast<std::size_t>(directions), "Affine");
  return {.op = "RNN",
          .attributes = {attr("direction", direction), attr("activations", activations)},
          .inputs = {counting({3, 2, 1}, DType::kF32, 1), ones({directions, 1, 1}),
                     ones({directions, 1, 1})},
          .outputs = 2};
}

TEST(Recurrent, Directions) {
  // Batch 0 gets 1, 3, 5; batch 1 gets 2, 4, 6.
  const auto forward = run_case(adding_rnn("forward", 1));
  EXPECT_EQ(values_of(forward[0]), (Numbers{1, 2, 4, 6, 9, 12}));
  EXPECT_EQ(values_of(forward[1]), (Numbers{9, 12}));
  const auto reverse = run_case(adding_rnn("reverse", 1));
  EXPECT_EQ(values_of(reverse[0]), (Numbers{9, 12, 8, 10, 5, 6}));
  const auto both = run_case(adding_rnn("bidirectional", 2));
  EXPECT_EQ(both[0].shape(), (Shape{3, 2, 2, 1}));
  EXPECT_EQ(values_of(both[0]), (Numbers{1, 2, 9, 12, 4, 6, 8, 10, 9, 12, 5, 6}));
  EXPECT_EQ(values_of(both[1]), (Numbers{9, 12, 9, 12}));
}

TEST(Recurrent, SequencesEndEarly) {
  for (const bool known : {false, true}) {
    NodeCase c = adding_rnn("bidirectional", 2);
    c.omitted_before = known ? 1 : 0;
    if (known) {
      c.constants = {lengths({1, 3})};
    } else {
      c.inputs.push_back(HostTensor(DType::kF32, {2, 2}));  // bias
      c.inputs.push_back(lengths({1, 3}));
    }
    const auto y = run_case(c);
    EXPECT_EQ(values_of(y[0]), (Numbers{1, 2, 1, 12, 0, 6, 0, 10, 0, 12, 0, 6}));
    EXPECT_EQ(values_of(y[1]), (Numbers{1, 12, 1, 12}));
  }
}

TEST(Recurrent, BatchFirstIsATransposition) {
  NodeCase c = adding_rnn("forward", 1);
  c.attributes.push_back(attr("layout", std::int64_t{1}));
  c.inputs[0] = counting({2, 3, 1});
  const auto y = run_case(c);
  EXPECT_EQ(y[0].shape(), (Shape{2, 3, 1, 1}));
  EXPECT_EQ(values_of(y[0]), (Numbers{0, 1, 3, 3, 7, 12}));
  EXPECT_EQ(y[1].shape(), (Shape{2, 1, 1}));
}

TEST(Recurrent, ActivationsTakeTheirParametersInOrder) {
  NodeCase c = adding_rnn("bidirectional", 2);
  c.inputs[0] = ones({1, 1, 1});
  c.attributes[1] = attr("activations", Words{"Tanh", "affine"});
  c.attributes.push_back(attr("activation_alpha", std::vector<float>{3}));
  c.attributes.push_back(attr("activation_beta", std::vector<float>{10}));
  const auto y = run_case(c);
  EXPECT_NEAR(y[0].get_float(0), std::tanh(1.0), 1e-6);
  EXPECT_EQ(y[0].get_float(1), 13);
  c.attributes.push_back(attr("clip", 0.5F));
  EXPECT_EQ(run_case(c)[0].get_float(1), 11.5);
}

TEST(Recurrent, CoupledForgetGate) {
  const auto y =
      run_case({.op = "LSTM",
                .attributes = {attr("input_forget", std::int64_t{1})},
                .inputs = {ones({1, 1, 1}), HostTensor(DType::kF32, {1, 4, 1}),
                           HostTensor(DType::kF32, {1, 4, 1}), HostTensor(DType::kF32, {1, 8}),
                           lengths({1}), ones({1, 1, 1}), ones({1, 1, 1})},
                .outputs = 3});
  EXPECT_NEAR(y[2].get_float(0), 0.5, 1e-6);  // (1 - i) c with i = 1/2 and nothing new
}

TEST(Recurrent, GruResetsBeforeOrAfterTheProduct) {
  const auto gru = [](std::int64_t linear_before_reset) {
    HostTensor bias(DType::kF32, {1, 6});
    bias.set_float(5, 2);  // Rbh
    return run_case({.op = "GRU",
                     .attributes = {attr("linear_before_reset", linear_before_reset),
                                    attr("activations", Words{"Sigmoid", "Affine"})},
                     .inputs = {ones({1, 1, 1}), HostTensor(DType::kF32, {1, 3, 1}),
                                HostTensor(DType::kF32, {1, 3, 1}), bias}})[0]
        .get_float(0);
  };
  EXPECT_NEAR(gru(0), 0.5 * 2, 1e-6);
  EXPECT_NEAR(gru(1), 0.5 * (0.5 * 2), 1e-6);
}

TEST(Recurrent, NoSteps) {
  NodeCase c = adding_rnn("forward", 1);
  c.inputs[0] = HostTensor(DType::kF32, {0, 2, 1});
  const auto y = run_case(c);
  EXPECT_EQ(y[0].shape(), (Shape{0, 1, 2, 1}));
  EXPECT_EQ(values_of(y[1]), (Numbers{0, 0}));
}

TEST(Recurrent, Refusals) {
  NodeCase c = adding_rnn("forward", 1);
  c.attributes[1] = attr("activations", Words{"Cube"});
  EXPECT_NE(refusal(c).find("activation Cube"), std::string::npos);
  c.attributes[1] = attr("activations", Words{"Tanh", "Tanh"});
  EXPECT_NE(refusal(c).find("2 activations, not 1"), std::string::npos);
  EXPECT_NE(refusal(adding_rnn("sideways", 1)).find("sideways"), std::string::npos);
  c = adding_rnn("forward", 1);
  c.inputs[1] = ones({1, 2, 1});
  EXPECT_NE(refusal(c).find("do not fit"), std::string::npos);
  c = adding_rnn("forward", 1);
  c.attributes.push_back(attr("hidden_size", std::int64_t{4}));
  EXPECT_NE(refusal(c).find("hidden_size 4"), std::string::npos);
}

// Softmax attention written as loops; q, k, v are [batch, heads, sequence, size].
struct Reference {
  HostTensor q, k, v;
  bool causal = false;
  std::int64_t past = 0;

  double at(const HostTensor& t, std::int64_t b, std::int64_t h, std::int64_t s,
            std::int64_t d) const {
    const Shape& shape = t.shape();
    return t.get_float(((b * shape[1] + h) * shape[2] + s) * shape[3] + d);
  }
  HostTensor run() const {
    const Shape& qs = q.shape();
    const std::int64_t keys = k.shape()[2], size = v.shape()[3], group = qs[1] / k.shape()[1];
    HostTensor y(DType::kF32, {qs[0], qs[1], qs[2], size});
    std::int64_t out = 0;
    for (std::int64_t b = 0; b < qs[0]; ++b)
      for (std::int64_t h = 0; h < qs[1]; ++h)
        for (std::int64_t i = 0; i < qs[2]; ++i) {
          Numbers weights;
          double total = 0;
          for (std::int64_t j = 0; j < keys; ++j) {
            double dot = 0;
            for (std::int64_t d = 0; d < qs[3]; ++d)
              dot += at(q, b, h, i, d) * at(k, b, h / group, j, d);
            const bool hidden = causal && j > i + past;
            weights.push_back(hidden ? 0 : std::exp(dot / std::sqrt(static_cast<double>(qs[3]))));
            total += weights.back();
          }
          for (std::int64_t e = 0; e < size; ++e) {
            double sum = 0;
            for (std::int64_t j = 0; j < keys; ++j)
              sum += weights[static_cast<std::size_t>(j)] / total * at(v, b, h / group, j, e);
            y.set_float(out++, sum);
          }
        }
    return y;
  }
};

class AttentionTest : public ::testing::Test {
 protected:
  HostTensor random(const Shape& shape) { return random_tensor(DType::kF32, shape, rng_); }
  Rng rng_{11};
};

TEST_F(AttentionTest, SharedHeadsOfKeys) {
  const Reference r{random({2, 4, 3, 5}), random({2, 2, 6, 5}), random({2, 2, 6, 7})};
  const auto y = run_case({.op = "Attention", .opset = 23, .inputs = {r.q, r.k, r.v}});
  EXPECT_EQ(tessera::testing::mismatch(y[0], r.run(), 1e-5), "");
}

TEST_F(AttentionTest, CausalWithPast) {
  const HostTensor past_k = random({1, 2, 2, 4}), past_v = random({1, 2, 2, 4});
  const HostTensor q = random({1, 2, 3, 4}), k = random({1, 2, 3, 4}), v = random({1, 2, 3, 4});
  const auto y = run_case({.op = "Attention",
                           .opset = 23,
                           .attributes = {attr("is_causal", std::int64_t{1})},
                           .inputs = {q, k, v, HostTensor(DType::kF32, {3, 5}), past_k, past_v},
                           .outputs = 4});
  EXPECT_EQ(y[1].shape(), (Shape{1, 2, 5, 4}));
  const Reference r{q, y[1], y[2], true, 2};
  EXPECT_EQ(tessera::testing::mismatch(y[0], r.run(), 1e-5), "");
  EXPECT_EQ(y[3].shape(), (Shape{1, 2, 3, 5}));
}

TEST_F(AttentionTest, PackedHeadsAndBooleanMask) {
  const HostTensor q = random({1, 2, 6}), k = random({1, 3, 6}), v = random({1, 3, 4});
  HostTensor mask(DType::kBool, {2, 2});  // the third key is not mentioned: hidden
  for (std::int64_t i = 0; i < 4; ++i) mask.set_int(i, 1);
  const std::vector<Attribute> heads = {attr("q_num_heads", std::int64_t{2}),
                                        attr("kv_num_heads", std::int64_t{2})};
  const auto y =
      run_case({.op = "Attention", .opset = 23, .attributes = heads, .inputs = {q, k, v, mask}});
  EXPECT_EQ(y[0].shape(), (Shape{1, 2, 4}));
  // The same without the third key.
  HostTensor k2(DType::kF32, {1, 2, 6}), v2(DType::kF32, {1, 2, 4});
  for (std::int64_t i = 0; i < 12; ++i) k2.set_float(i, k.get_float(i));
  for (std::int64_t i = 0; i < 8; ++i) v2.set_float(i, v.get_float(i));
  const auto shorter =
      run_case({.op = "Attention", .opset = 23, .attributes = heads, .inputs = {q, k2, v2}});
  EXPECT_EQ(tessera::testing::mismatch(y[0], shorter[0], 1e-5), "");
  const auto valid = run_case({.op = "Attention",
                               .opset = 24,
                               .attributes = heads,
                               .inputs = {q, k, v},
                               .constants = {int_tensor({1}, {2})},
                               .omitted_before = 3});
  EXPECT_EQ(tessera::testing::mismatch(valid[0], shorter[0], 1e-5), "");
}

TEST_F(AttentionTest, Refusals) {
  EXPECT_NE(refusal({.op = "Attention",
                     .opset = 23,
                     .inputs = {random({1, 3, 2, 4}), random({1, 2, 2, 4}), random({1, 2, 2, 4})}})
                .find("3 heads of queries for 2"),
            std::string::npos);
  EXPECT_NE(refusal({.op = "Attention",
                     .opset = 23,
                     .inputs = {random({1, 2, 4}), random({1, 2, 4}), random({1, 2, 4})}})
                .find("q_num_heads"),
            std::string::npos);
}

TEST(RotaryEmbedding, RotatesPairs) {
  const HostTensor x = float_tensor({1, 1, 1, 4}, {1, 2, 3, 4});
  const HostTensor cosine = float_tensor({1, 1, 2}, {0, 1}), sine = float_tensor({1, 1, 2}, {1, 0});
  const auto halves = run_case({.op = "RotaryEmbedding", .opset = 23, .inputs = {x, cosine, sine}});
  EXPECT_EQ(values_of(halves[0]), (Numbers{-3, 2, 1, 4}));
  const auto pairs = run_case({.op = "RotaryEmbedding",
                               .opset = 23,
                               .attributes = {attr("interleaved", std::int64_t{1})},
                               .inputs = {x, cosine, sine}});
  EXPECT_EQ(values_of(pairs[0]), (Numbers{-2, 1, 3, 4}));
}

TEST(RotaryEmbedding, PartOfPackedHeadsByPosition) {
  const auto y =
      run_case({.op = "RotaryEmbedding",
                .opset = 23,
                .attributes = {attr("num_heads", std::int64_t{1}),
                               attr("rotary_embedding_dim", std::int64_t{2})},
                .inputs = {float_tensor({1, 1, 3}, {1, 2, 3}), float_tensor({2, 1}, {1, 0}),
                           float_tensor({2, 1}, {0, 1}), int_tensor({1, 1}, {1})}});
  EXPECT_EQ(values_of(y[0]), (Numbers{-2, 1, 3}));
}

}  // namespace
}  // namespace tessera::onnx::testing
