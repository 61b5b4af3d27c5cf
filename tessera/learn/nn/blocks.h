// What several networks are made of. Rows are flat, [batch * rows, width], where nothing else is
// said: one large product instead of many small ones.
#pragma once

#include <string>

#include "tessera/learn/nn/network_builder.h"

namespace tessera::nn {

// Two layers relu(x W + b) over every row, the first of which also reads the candidate's context:
// the same as the context put behind every row, at the price of one row.
ValueId encode_rows(NetworkBuilder& b, const Inputs& inputs, std::int64_t width,
                    const std::string& name);
// Only the first of the two, without relu.
ValueId embed_rows(NetworkBuilder& b, const Inputs& inputs, std::int64_t width,
                   const std::string& name);

// The mask as a factor of flat rows: [batch * rows, 1].
ValueId row_mask(NetworkBuilder& b, const Inputs& inputs);
// Sum over the real rows of a candidate: [batch, width].
ValueId sum_rows(NetworkBuilder& b, const Inputs& inputs, ValueId x);
// The same divided by their number; 0 without rows.
ValueId mean_rows(NetworkBuilder& b, const Inputs& inputs, ValueId x);

struct AttentionOptions {
  std::int64_t heads = 1;
  bool masked = true;  // false: every row attends to padding too
};
// Multi-head self-attention among the rows of a candidate with its output projection. A candidate
// without rows attends evenly to its padding, so that no value is NaN.
ValueId self_attention(NetworkBuilder& b, const Inputs& inputs, ValueId x,
                       const AttentionOptions& options, const std::string& name);

struct TransformerOptions {
  std::int64_t layers = 1, ffn = 1;
  AttentionOptions attention;
};
// Layers x + attention(norm(x)), x + ffn(norm(x)), and a norm behind the last: norms in front let
// deep stacks train without warm-up.
ValueId transformer(NetworkBuilder& b, const Inputs& inputs, ValueId x,
                    const TransformerOptions& options);

}  // namespace tessera::nn
