// Pieces of attention as exporters write them: Reshape, Transpose, MatMul, Softmax.
#pragma once

#include "tessera/frontend/zoo/layers.h"

namespace tessera::zoo {

// The most negative number of the builder's type: what masks add.
double lowest(const ModelBuilder& b);
// Size of a head; refuses a width that the heads do not divide.
std::int64_t head_size(ModelBuilder& b, std::int64_t width, std::int64_t heads);

// [batch, seq, heads * d] -> [batch, heads, seq, d]
Value split_heads(ModelBuilder& b, const Value& x, std::int64_t heads);
// [batch, seq, heads * d] -> [batch, heads, d, seq]
Value split_heads_transposed(ModelBuilder& b, const Value& x, std::int64_t heads);
// [batch, heads, seq, d] -> [batch, seq, heads * d]
Value merge_heads(ModelBuilder& b, const Value& x);

// q [.., m, d] times k [.., d, n], divided by sqrt(d).
Value attention_scores(ModelBuilder& b, const Value& q, const Value& k);
// softmax(scores) times v.
Value attend(ModelBuilder& b, const Value& scores, const Value& v);

}  // namespace tessera::zoo
