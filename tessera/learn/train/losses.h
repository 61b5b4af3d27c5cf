// Losses on lists: the candidates of one task on one machine.
#pragma once

#include <ATen/core/Tensor.h>

#include "tessera/learn/train/options.h"

namespace tessera::train {

// All arguments are [lists, length]; `member` is 1 where a list has an element, 0 behind its end.
// Returns [lists], 0 where a list says nothing:
//   mse         mean of (sigmoid(s) - y)^2
//   rank        mean over pairs y_i > y_j of log(1 + exp(s_j - s_i))
//   lambdarank  sum over pairs y_i > y_j of w_ij log2(1 + exp(s_j - s_i)),
//               w_ij = |1/D_i - 1/D_j| |G_i - G_j|, D = log2(1 + position by score),
//               G = (2^y - 1) / the best DCG
//   listmle     mean over the elements, best label first, of
//               log(sum of exp(s) over it and those behind it) - s
//   hinge       mean over pairs y_i > y_j of max(0, 1 - (s_i - s_j))
at::Tensor list_loss(Loss loss, const at::Tensor& scores, const at::Tensor& labels,
                     const at::Tensor& member);

// The mean of `x` where `weight` is 1; 0 where it is nowhere.
at::Tensor weighted_mean(const at::Tensor& x, const at::Tensor& weight);

}  // namespace tessera::train
