// ngram_counts: how often given n-grams occur in rows of token ids.
#include <algorithm>
#include <map>

#include "tessera/frontend/graph/ops/data_movement.h"
#include "tessera/frontend/graph/ops/ops.h"

namespace tessera::graph {

std::vector<OpDef> ngram_ops();

namespace {

using Tensors = std::vector<HostTensor>;
using Types = std::vector<TensorType>;
using Inputs = std::vector<const HostTensor*>;
using Ngram = std::vector<std::int64_t>;

constexpr std::int64_t kMaxColumns = std::int64_t{1} << 28;

// The n-grams of the pool and the column that counts each. Entry l of `starts` is where n-grams of
// length l + 1 begin in the pool; `columns` has one entry per n-gram.
Result<std::map<Ngram, std::int64_t>> read_pool(const Attrs& attrs) {
  const auto &starts = attrs.integers("starts"), &columns = attrs.integers("columns"),
             &pool = attrs.integers("pool");
  const auto size = static_cast<std::int64_t>(pool.size());
  std::map<Ngram, std::int64_t> found;
  std::size_t next = 0;
  for (std::size_t l = 0; l < starts.size(); ++l) {
    const std::int64_t begin = starts[l], end = l + 1 < starts.size() ? starts[l + 1] : size;
    const auto length = static_cast<std::int64_t>(l) + 1;
    if (begin < 0 || begin > end || end > size || (end - begin) % length != 0) {
      return bad_operand("n-grams of length {} from {} to {} in a pool of {}", length, begin, end,
                         size);
    }
    for (std::int64_t at = begin; at < end; at += length) {
      if (next == columns.size()) return bad_operand("{} columns for more n-grams", next);
      found[Ngram(pool.begin() + at, pool.begin() + at + length)] = columns[next++];
    }
  }
  if (next != columns.size()) return bad_operand("{} columns for {} n-grams", columns.size(), next);
  return found;
}

// ngram_counts {shortest, longest, max_skip, starts, columns, pool} x[C] or [N, C] -> f32 [cols] or
// [N, cols]. An n-gram may leave out the same number of tokens, at most max_skip, between any two.
Result<Types> infer_ngram_counts(const NodeView& node) {
  const Shape& shape = node.shape(0);
  if (shape.empty() || shape.size() > 2 || !is_int(node.dtype(0))) {
    return bad_operand("token ids [C] or [N, C] are needed, not {}", to_text(*node.types[0]));
  }
  const std::int64_t shortest = node.attrs.integer("shortest"),
                     longest = node.attrs.integer("longest");
  if (shortest < 1 || longest < shortest || node.attrs.integer("max_skip") < 0) {
    return bad_operand("n-grams of {} to {} that skip {}", shortest, longest,
                       node.attrs.integer("max_skip"));
  }
  TESSERA_DO(read_pool(node.attrs));
  std::int64_t count = 0;
  for (const std::int64_t column : node.attrs.integers("columns")) {
    if (column < 0 || column >= kMaxColumns) return bad_operand("column {}", column);
    count = std::max(count, column + 1);
  }
  Shape out = shape;
  out.back() = count;
  return single_type(DType::kF32, std::move(out));
}

struct Counter {
  const std::map<Ngram, std::int64_t>& pool;
  float* counts;

  // All n-grams of `length` whose tokens are `stride` apart.
  void count(const Ngram& row, std::int64_t length, std::int64_t stride) const {
    const auto size = static_cast<std::int64_t>(row.size());
    Ngram ngram(static_cast<std::size_t>(length));
    for (std::int64_t start = 0; start + (length - 1) * stride < size; ++start) {
      for (std::int64_t k = 0; k < length; ++k) {
        ngram[static_cast<std::size_t>(k)] = row[static_cast<std::size_t>(start + k * stride)];
      }
      const auto found = pool.find(ngram);
      if (found != pool.end()) counts[found->second] += 1;
    }
  }
};

Result<Tensors> evaluate_ngram_counts(const NodeView& node, const Inputs& in) {
  TESSERA_TRY(const Types types, infer_ngram_counts(node));
  TESSERA_TRY(const auto pool, read_pool(node.attrs));
  const HostTensor& x = *in[0];
  HostTensor out(types[0].dtype, types[0].shape);
  const std::int64_t size = x.shape().back(), columns = out.shape().back();
  const std::int64_t rows = x.shape().size() == 2 ? x.shape()[0] : 1;
  // Longer n-grams than the pool or the row holds do not occur.
  const std::int64_t longest =
      std::min({node.attrs.integer("longest"), size,
                static_cast<std::int64_t>(node.attrs.integers("starts").size())});
  const std::int64_t strides = std::min(node.attrs.integer("max_skip"), size) + 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    Ngram row;
    for (std::int64_t i = 0; i < size; ++i) row.push_back(x.get_int(r * size + i));
    const Counter counter{pool, out.as<float>() + r * columns};
    for (std::int64_t length = node.attrs.integer("shortest"); length <= longest; ++length) {
      // A single token has nothing to skip.
      for (std::int64_t stride = 1; stride <= (length == 1 ? 1 : strides); ++stride) {
        counter.count(row, length, stride);
      }
    }
  }
  return Tensors{out};
}

}  // namespace

std::vector<OpDef> ngram_ops() {
  return {{"ngram_counts", Fusion::kHost, infer_ngram_counts, nullptr, evaluate_ngram_counts}};
}

}  // namespace tessera::graph
