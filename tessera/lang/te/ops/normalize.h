// Normalisations over any axes of a tensor, as stages of a Dag: what the operations softmax,
// layernorm and rmsnorm and the operators of a graph share.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/te/builder.h"

namespace tessera::te {

struct Normalization {
  ir::Buffer x;
  NamedAxes axes;              // of x
  std::vector<bool> together;  // per axis: is one of those normalised together
  DType acc;                   // of every stage but the last
  DType out;                   // of the last stage
  std::string prefix;          // in front of the names of the other stages
  std::string last;            // the name of the last stage
};

// Stages mx, ex, sm, inv and the last. Of a row whose largest element is infinite: NaN.
ir::Buffer softmax_stages(DagBuilder& b, const Normalization& n);

// (x - mean) / sqrt(variance + epsilon) * scale + bias: stages sum, mean, sq, rstd and the last.
// `scale` and `bias` broadcast to x; null where absent.
ir::Buffer layernorm_stages(DagBuilder& b, const Normalization& n, double epsilon,
                            const ir::Buffer& scale, const ir::Buffer& bias);

// x / sqrt(mean of squares + epsilon) * scale: stages sq, rstd and the last. `scale` broadcasts to
// x; null where absent.
ir::Buffer rmsnorm_stages(DagBuilder& b, const Normalization& n, double epsilon,
                          const ir::Buffer& scale);

}  // namespace tessera::te
