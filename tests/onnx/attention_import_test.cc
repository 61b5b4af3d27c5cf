// Attention: what its fourth output shows, windows, and queries that see no key.
#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/onnx/run_node.h"

namespace tessera::onnx::testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One head of one batch, written as loops. q [n, d], k [m, d], v [m, e].
struct Head {
  HostTensor q, k, v;
  std::vector<double> mask;  // [n, m], added; empty: none
  double cap = 0;
  std::int64_t left = -1, right = -1;
  bool causal = false;

  std::int64_t queries() const { return q.shape()[2]; }
  std::int64_t keys() const { return k.shape()[2]; }

  // Mode 0: products; 1: capped; 2: masked; 3: weights.
  std::vector<double> scores(int mode) const {
    const std::int64_t n = queries(), m = keys(), d = q.shape()[3];
    std::vector<double> all;
    for (std::int64_t i = 0; i < n; ++i) {
      std::vector<double> row;
      for (std::int64_t j = 0; j < m; ++j) {
        double x = 0;
        for (std::int64_t t = 0; t < d; ++t) x += q.get_float(i * d + t) * k.get_float(j * d + t);
        x /= std::sqrt(static_cast<double>(d));
        if (mode > 0 && cap > 0) x = cap * std::tanh(x / cap);
        if (mode > 1 && !mask.empty()) x += mask[static_cast<std::size_t>(i * m + j)];
        const bool hidden =
            (causal && j > i) || (left >= 0 && j < i - left) || (right >= 0 && j > i + right);
        if (mode > 1 && hidden) x = -kInfinity;
        row.push_back(x);
      }
      if (mode == 3) {
        const double top = *std::max_element(row.begin(), row.end());
        double sum = 0;
        for (double& x : row) {
          x = top == -kInfinity ? 0 : std::exp(x - top);
          sum += x;
        }
        for (double& x : row) x = sum == 0 ? 0 : x / sum;
      }
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  HostTensor output() const {
    const std::vector<double> w = scores(3);
    const std::int64_t n = queries(), m = keys(), e = v.shape()[3];
    HostTensor y(DType::kF32, {1, 1, n, e});
    for (std::int64_t i = 0; i < n; ++i)
      for (std::int64_t c = 0; c < e; ++c) {
        double sum = 0;
        for (std::int64_t j = 0; j < m; ++j)
          sum += w[static_cast<std::size_t>(i * m + j)] * v.get_float(j * e + c);
        y.set_float(i * e + c, sum);
      }
    return y;
  }

  // Runs the operator with the mask given at run time or known at import.
  void expect(int mode, std::int64_t opset, bool known_mask) const {
    SCOPED_TRACE(fmt::format("mode {}, known mask {}", mode, known_mask));
    std::vector<Attribute> attributes = {attr("softcap", static_cast<float>(cap)),
                                         attr("is_causal", std::int64_t{causal}),
                                         attr("qk_matmul_output_mode", std::int64_t{mode})};
    if (left >= 0) attributes.push_back(attr("left_window_size", left));
    if (right >= 0) attributes.push_back(attr("right_window_size", right));
    std::vector<Operand> operands = {q, k, v};
    if (!mask.empty()) {
      const HostTensor t = tensor(DType::kF32, {queries(), keys()}, mask);
      operands.push_back(known_mask ? known(t) : Operand(t));
    }
    const auto y = run_node({"Attention", opset, attributes, 4}, operands);
    ASSERT_TRUE(y.ok()) << y.error().message;
    EXPECT_EQ(tessera::testing::mismatch((*y)[0], output(), 1e-5), "");
    const HostTensor want = tensor(DType::kF32, {1, 1, queries(), keys()}, scores(mode));
    EXPECT_EQ(tessera::testing::mismatch((*y)[3], want, 1e-5), "");
  }
};

Head random_head(std::uint64_t seed, std::int64_t queries, std::int64_t keys) {
  Rng rng(seed);
  const auto make = [&](std::int64_t n, std::int64_t d) {
    return random_tensor(DType::kF32, {1, 1, n, d}, rng);
  };
  return {make(queries, 6), make(keys, 6), make(keys, 3), {}};
}

TEST(AttentionScores, EveryModeWithCapAndMask) {
  for (const double cap : {0.0, 0.4}) {
    Head head = random_head(5, 3, 4);
    head.cap = cap;
    head.mask = {0.5, -1, 0.25, 2, 0, 0, -kInfinity, 1, -0.5, 0.75, -kInfinity, 0};
    for (const int mode : {0, 1, 2, 3}) {
      head.expect(mode, 23, false);
      head.expect(mode, 24, true);
    }
  }
}

TEST(AttentionScores, WindowsOnEitherSide) {
  for (const auto& [left, right, causal] :
       {std::tuple(1, -1, false), std::tuple(-1, 1, false), std::tuple(2, 0, true),
        std::tuple(0, 1, false), std::tuple(1, 3, true)}) {
    Head head = random_head(9, 5, 5);
    head.left = left;
    head.right = right;
    head.causal = causal;
    for (const int mode : {2, 3}) head.expect(mode, 25, false);
  }
}

TEST(AttentionScores, QueriesThatSeeNoKeyGetZero) {
  Head masked = random_head(3, 2, 3);
  masked.mask = {-kInfinity, -kInfinity, -kInfinity, 0, 0, 0};
  // Queries 3 and later are further than one key behind the last one.
  Head beyond = random_head(4, 6, 2);
  beyond.left = 1;
  for (const Head& head : {masked, beyond}) {
    for (const bool known_mask : {false, true}) head.expect(3, 25, known_mask);
  }
  EXPECT_EQ(masked.output().get_float(0), 0);
}

TEST(AttentionScores, BadAttributesAreRefused) {
  const Head head = random_head(1, 2, 2);
  const std::vector<Operand> operands = {head.q, head.k, head.v};
  const auto reason = [&](const char* name, std::int64_t value) {
    return refusal(OneNode{"Attention", 25, {attr(name, value)}}, operands);
  };
  EXPECT_NE(reason("left_window_size", -2).find("left_window_size is -2"), std::string::npos);
  EXPECT_NE(reason("qk_matmul_output_mode", 4).find("is not 0 to 3"), std::string::npos);
}

}  // namespace
}  // namespace tessera::onnx::testing
