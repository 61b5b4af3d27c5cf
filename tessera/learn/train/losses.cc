#include "tessera/learn/train/losses.h"

#include <cmath>

#include <ATen/ATen.h>

namespace tessera::train {
namespace {

using at::Tensor;

// x_i - x_j at [list, i, j].
Tensor differences(const Tensor& x) { return x.unsqueeze(2) - x.unsqueeze(1); }

// 1 at [list, i, j] where both are members and y_i > y_j.
Tensor ordered_pairs(const Tensor& labels, const Tensor& member) {
  const Tensor both = member.unsqueeze(2) * member.unsqueeze(1);
  return (differences(labels) > 0).to(member.scalar_type()) * both;
}

// log(1 + exp(s_j - s_i)), exact where the exponential would overflow or vanish.
Tensor pair_costs(const Tensor& scores) { return at::softplus(-differences(scores)); }

Tensor squared(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor error = (at::sigmoid(scores) - labels) * member;
  return (error * error).sum(1) / member.sum(1).clamp_min(1);
}

Tensor rank(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor pairs = ordered_pairs(labels, member);
  return (pairs * pair_costs(scores)).sum({1, 2}) / pairs.sum({1, 2}).clamp_min(1);
}

Tensor hinge(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor pairs = ordered_pairs(labels, member);
  return (pairs * at::relu(1 - differences(scores))).sum({1, 2}) / pairs.sum({1, 2}).clamp_min(1);
}

Tensor lambda_weights(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor outside = 1 - member;
  const auto order = [&](const Tensor& x) {  // best first, those outside last
    return std::get<1>(at::sort(x.masked_fill(outside > 0, -INFINITY), true, 1, true));
  };
  const Tensor place = at::arange(1, scores.size(1) + 1, scores.options());
  const Tensor discount = 1 / at::log2(1 + place);  // by position
  // The order's own order is where each element stands.
  const Tensor position = std::get<1>(at::sort(order(scores), true, 1, false));
  const Tensor own = discount.expand_as(scores).gather(1, position);
  const Tensor gain = (at::exp2(labels) - 1) * member;
  const Tensor best = (gain.gather(1, order(labels)) * discount).sum(1, true).clamp_min(1e-10);
  return differences(own).abs() * differences(gain / best).abs();
}

Tensor lambda_rank(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor weights = lambda_weights(scores.detach(), labels, member);
  const Tensor cost = ordered_pairs(labels, member) * weights * pair_costs(scores);
  return cost.sum({1, 2}) / std::log(2.0);
}

// The sums run over a triangle rather than cumulatively: lists are short, and devices add up a
// row in a fixed order.
Tensor list_mle(const Tensor& scores, const Tensor& labels, const Tensor& member) {
  const Tensor order = std::get<1>(at::sort(labels.masked_fill(member == 0, -1), true, 1, true));
  const Tensor s = scores.gather(1, order), m = member.gather(1, order);
  const std::int64_t n = s.size(1);
  const Tensor behind = at::ones({n, n}, s.options()).triu() * m.unsqueeze(1);
  const Tensor tails =
      s.unsqueeze(1).expand({s.size(0), n, n}).masked_fill(behind == 0, -1e30).logsumexp({2});
  const Tensor cost = at::where(m > 0, tails - s, at::zeros_like(s));
  return cost.sum(1) / m.sum(1).clamp_min(1);
}

}  // namespace

at::Tensor list_loss(Loss loss, const at::Tensor& scores, const at::Tensor& labels,
                     const at::Tensor& member) {
  switch (loss) {
    case Loss::kSquared:
      return squared(scores, labels, member);
    case Loss::kRank:
      return rank(scores, labels, member);
    case Loss::kLambdaRank:
      return lambda_rank(scores, labels, member);
    case Loss::kListMle:
      return list_mle(scores, labels, member);
    case Loss::kHinge:
      return hinge(scores, labels, member);
  }
  TESSERA_CHECK(false, "loss {}", static_cast<int>(loss));
}

at::Tensor weighted_mean(const at::Tensor& x, const at::Tensor& weight) {
  return (x * weight).sum() / weight.sum().clamp_min(1);
}

}  // namespace tessera::train
