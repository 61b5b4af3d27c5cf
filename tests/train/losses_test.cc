#include "tessera/learn/train/losses.h"

#include <cmath>
#include <numeric>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::train {
namespace {

using Numbers = std::vector<double>;

at::Tensor matrix(const std::vector<Numbers>& lists, std::size_t length) {
  at::Tensor out = at::zeros(
      {static_cast<std::int64_t>(lists.size()), static_cast<std::int64_t>(length)}, at::kDouble);
  for (std::size_t l = 0; l < lists.size(); ++l) {
    std::copy(lists[l].begin(), lists[l].end(), out.data_ptr<double>() + l * length);
  }
  return out;
}

// The loss of lists of different length, as tensors that are `length` long.
Numbers losses(Loss loss, const std::vector<Numbers>& scores, const std::vector<Numbers>& labels,
               std::size_t length) {
  std::vector<Numbers> member;
  for (const Numbers& list : scores) member.emplace_back(list.size(), 1.0);
  const at::Tensor out =
      list_loss(loss, matrix(scores, length), matrix(labels, length), matrix(member, length));
  return {out.data_ptr<double>(), out.data_ptr<double>() + out.numel()};
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double plain_squared(const Numbers& s, const Numbers& y) {
  double sum = 0;
  for (std::size_t i = 0; i < s.size(); ++i) sum += std::pow(sigmoid(s[i]) - y[i], 2);
  return s.empty() ? 0 : sum / static_cast<double>(s.size());
}

double plain_rank(const Numbers& s, const Numbers& y) {
  double sum = 0, pairs = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (!(y[i] > y[j])) continue;
      sum -= std::log(sigmoid(s[i] - s[j]));
      pairs += 1;
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

double plain_hinge(const Numbers& s, const Numbers& y) {
  double sum = 0, pairs = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (!(y[i] > y[j])) continue;
      sum += std::max(0.0, 1 - (s[i] - s[j]));
      pairs += 1;
    }
  }
  return pairs > 0 ? sum / pairs : 0;
}

// Positions from 1 on, largest first.
Numbers positions(const Numbers& x) {
  Numbers out;
  for (const double a : x) {
    out.push_back(1 + static_cast<double>(
                          std::count_if(x.begin(), x.end(), [&](double b) { return b > a; })));
  }
  return out;
}

double plain_lambda_rank(const Numbers& s, const Numbers& y) {
  const Numbers at = positions(s), best = positions(y);
  double ideal = 0, sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    ideal += (std::exp2(y[i]) - 1) / std::log2(1 + best[i]);
  }
  for (std::size_t i = 0; i < s.size(); ++i) {
    for (std::size_t j = 0; j < s.size(); ++j) {
      if (!(y[i] > y[j])) continue;
      const double discount = std::abs(1 / std::log2(1 + at[i]) - 1 / std::log2(1 + at[j]));
      const double gain = std::abs(std::exp2(y[i]) - std::exp2(y[j])) / ideal;
      sum -= discount * gain * std::log2(sigmoid(s[i] - s[j]));
    }
  }
  return sum;
}

double plain_list_mle(const Numbers& s, const Numbers& y) {
  double sum = 0;
  for (std::size_t i = 0; i < s.size(); ++i) {
    double tail = 0;
    for (std::size_t j = 0; j < s.size(); ++j) tail += y[j] <= y[i] ? std::exp(s[j]) : 0;
    sum += std::log(tail) - s[i];
  }
  return s.empty() ? 0 : sum / static_cast<double>(s.size());
}

TEST(Losses, OfTwoCandidatesByHand) {
  // The better one (label 1) is scored 0, the other (label 0.5) ln 3 above it.
  const std::vector<Numbers> s = {{0, std::log(3.0)}}, y = {{1, 0.5}};
  EXPECT_NEAR(losses(Loss::kSquared, s, y, 2)[0], (0.25 + 0.0625) / 2, 1e-12);
  EXPECT_NEAR(losses(Loss::kRank, s, y, 2)[0], std::log(4.0), 1e-12);
  EXPECT_NEAR(losses(Loss::kListMle, s, y, 2)[0], std::log(4.0) / 2, 1e-12);
  EXPECT_NEAR(losses(Loss::kHinge, s, y, 2)[0], 1 + std::log(3.0), 1e-12);
  // Positions 2 and 1: |1/log2 3 - 1|; gains 1 and sqrt 2 - 1 over 1 + (sqrt 2 - 1) / log2 3.
  const double weight =
      (1 - 1 / std::log2(3.0)) * (2 - std::sqrt(2.0)) / (1 + (std::sqrt(2.0) - 1) / std::log2(3.0));
  EXPECT_NEAR(losses(Loss::kLambdaRank, s, y, 2)[0], weight * 2, 1e-12);
}

TEST(Losses, EqualPlainLoopsOnListsOfAnyLength) {
  Rng rng(11);
  std::vector<Numbers> scores, labels;
  for (const std::size_t n : {7, 1, 0, 12, 3}) {
    Numbers s, y;
    for (std::size_t i = 0; i < n; ++i) {
      s.push_back(4 * rng.uniform() - 2);
      y.push_back(0.05 + 0.95 * rng.uniform());
    }
    scores.push_back(s);
    labels.push_back(y);
  }
  const std::pair<Loss, double (*)(const Numbers&, const Numbers&)> kinds[] = {
      {Loss::kSquared, plain_squared},
      {Loss::kRank, plain_rank},
      {Loss::kLambdaRank, plain_lambda_rank},
      {Loss::kListMle, plain_list_mle},
      {Loss::kHinge, plain_hinge}};
  for (const auto& [loss, plain] : kinds) {
    const Numbers got = losses(loss, scores, labels, 12);
    for (std::size_t l = 0; l < scores.size(); ++l) {
      EXPECT_NEAR(got[l], plain(scores[l], labels[l]), 1e-10) << to_text(loss) << " list " << l;
    }
  }
}

TEST(Losses, LargeScoresStayFinite) {
  for (const Loss loss :
       {Loss::kSquared, Loss::kRank, Loss::kLambdaRank, Loss::kListMle, Loss::kHinge}) {
    at::Tensor s = matrix({{-1e4, 1e4}, {3, 0}}, 3).to(at::kFloat);
    s.set_requires_grad(true);
    const at::Tensor y = matrix({{1, 0.2}, {0.5, 0}}, 3).to(at::kFloat);
    const at::Tensor m = matrix({{1, 1}, {1}}, 3).to(at::kFloat);
    const at::Tensor out = list_loss(loss, s, y, m).sum();
    out.backward();
    EXPECT_TRUE(std::isfinite(out.item<float>())) << to_text(loss);
    EXPECT_TRUE(at::isfinite(s.grad()).all().item<bool>()) << to_text(loss);
    EXPECT_EQ(s.grad().select(1, 2).abs().sum().item<float>(), 0) << to_text(loss);
  }
}

}  // namespace
}  // namespace tessera::train
