// What the attention operators of all domains are made of.
#pragma once

#include "tessera/frontend/onnx/ops/formula.h"

namespace tessera::onnx {

// [batch, sequence, heads * size] as [batch, heads, sequence, size], and back.
Term split_heads(Formula& f, Term x, std::int64_t heads);
Term merge_heads(Formula& f, Term y);

// x[b, h, i, k] * y[b, g, j, k] with h / (number of h / number of g) = g: several heads of queries
// share one of keys. With `values` y is [b, g, k, j].
Term per_head(Formula& f, Term x, Term y, bool values);

// start, start + 1, ... (size of them): i64.
Term counting(Formula& f, std::int64_t size, std::int64_t start = 0);
// Positions of keys [1, keys] and queries [.., queries, 1], of which `first` is that of the first
// query. Compared with each other they make a mask: no number for each score is stored.
Term key_positions(Formula& f, std::int64_t keys);
Term query_positions(Formula& f, Term first, std::int64_t queries);

// Rotates pairs of the last dimension of x: neighbours, or elements half the dimension apart. The
// tables broadcast; elements beyond twice their last dimension stay.
Term rotate(Formula& f, Term x, Term cosine, Term sine, bool interleaved);

}  // namespace tessera::onnx
