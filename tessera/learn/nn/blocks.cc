#include "tessera/learn/nn/blocks.h"

#include <cmath>

namespace tessera::nn {

using graph::kNoValue;

namespace {

// Far below every score, and far from the end of f32.
constexpr double kNever = 1e9;

}  // namespace

ValueId embed_rows(NetworkBuilder& b, const Inputs& inputs, std::int64_t width,
                   const std::string& name) {
  if (inputs.context == kNoValue) return b.linear(b.flat(inputs.rows), width, name);
  const ValueId rows = b.linear(inputs.rows, width, name, /*bias=*/false);
  const ValueId context = b.linear(inputs.context, width, name + ".context");
  return b.flat(b.add(rows, b.reshape(context, {b.batch(), 1, width})));
}

ValueId encode_rows(NetworkBuilder& b, const Inputs& inputs, std::int64_t width,
                    const std::string& name) {
  const ValueId x = b.relu(embed_rows(b, inputs, width, name + ".0"));
  return b.relu(b.linear(x, width, name + ".1"));
}

ValueId row_mask(NetworkBuilder& b, const Inputs& inputs) {
  return b.reshape(inputs.mask, {b.batch() * b.rows(), 1});
}

ValueId sum_rows(NetworkBuilder& b, const Inputs& inputs, ValueId x) {
  const ValueId mask = b.reshape(inputs.mask, {b.batch(), b.rows(), 1});
  return b.sum(b.mul(b.by_row(x), mask), 1);
}

ValueId mean_rows(NetworkBuilder& b, const Inputs& inputs, ValueId x) {
  const ValueId count = b.max(b.sum(inputs.mask, 1, /*keep=*/true), b.scalar(1));
  return b.div(sum_rows(b, inputs, x), count);
}

ValueId self_attention(NetworkBuilder& b, const Inputs& inputs, ValueId x,
                       const AttentionOptions& options, const std::string& name) {
  const std::int64_t width = b.width(x), heads = options.heads;
  if (width % heads != 0) b.refuse("hidden={} is not a multiple of heads={}", width, heads);
  const std::int64_t size = width / heads;
  const auto project = [&](const char* part) {
    const ValueId y = b.linear(x, width, name + "." + part);
    return b.reshape(y, {b.batch(), b.rows(), heads, size});
  };
  const ValueId q = project("query"), k = project("key"), v = project("value");
  const double scale = 1 / std::sqrt(static_cast<double>(size));
  ValueId scores = b.mul(b.contract("brhd,bshd->bhrs", q, k), b.scalar(scale));
  if (options.masked) {
    const ValueId bias = b.mul(b.sub(inputs.mask, b.scalar(1)), b.scalar(kNever));
    scores = b.add(scores, b.reshape(bias, {b.batch(), 1, 1, b.rows()}));
  }
  const ValueId attended = b.contract("bhrs,bshd->brhd", b.softmax(scores), v);
  return b.linear(b.reshape(attended, {b.batch() * b.rows(), width}), width, name + ".out");
}

ValueId transformer(NetworkBuilder& b, const Inputs& inputs, ValueId x,
                    const TransformerOptions& options) {
  const std::int64_t width = b.width(x);
  for (std::int64_t i = 0; i < options.layers; ++i) {
    const std::string name = fmt::format("layer{}", i);
    const ValueId y = b.layer_norm(x, name + ".norm0");
    x = b.add(x, self_attention(b, inputs, y, options.attention, name + ".attention"));
    const ValueId z = b.linear(b.layer_norm(x, name + ".norm1"), options.ffn, name + ".ffn0");
    x = b.add(x, b.linear(b.relu(z), width, name + ".ffn1"));
  }
  return b.layer_norm(x, "norm");
}

}  // namespace tessera::nn
