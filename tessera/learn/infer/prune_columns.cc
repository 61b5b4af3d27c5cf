#include "tessera/learn/infer/prune_columns.h"

#include <algorithm>
#include <cstring>

namespace tessera::infer {
namespace {

// Columns that are left are rounded up to a multiple of this by keeping some that say nothing.
constexpr std::size_t kColumnStep = 8;

// `tensor` with only the given indices of its first axis.
HostTensor take_rows(const HostTensor& tensor, const std::vector<std::int32_t>& indices) {
  Shape shape = tensor.shape();
  const std::size_t bytes = tensor.bytes() / static_cast<std::size_t>(shape[0]);
  shape[0] = static_cast<std::int64_t>(indices.size());
  HostTensor out(tensor.dtype(), shape);
  auto* to = static_cast<std::byte*>(out.data());
  const auto* from = static_cast<const std::byte*>(tensor.data());
  for (const std::int32_t i : indices) {
    std::memcpy(to, from + static_cast<std::size_t>(i) * bytes, bytes);
    to += bytes;
  }
  return out;
}

std::vector<std::int32_t> telling_columns(const nn::Normalizer& normalizer) {
  std::vector<std::int32_t> kept, silent;
  for (std::size_t c = 0; c < normalizer.scale.size(); ++c) {
    (normalizer.scale[c] != 0 ? kept : silent).push_back(static_cast<std::int32_t>(c));
  }
  for (std::size_t i = 0; i < silent.size() && (kept.size() % kColumnStep != 0 || kept.empty());
       ++i) {
    kept.push_back(silent[i]);
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

}  // namespace

Result<PrunedNetwork> prune_columns(const nn::TrainedNetwork& network) {
  PrunedNetwork full{network.spec, network.weights, {}};
  for (std::int64_t c = 0; c < network.spec.columns; ++c) {
    full.columns.push_back(static_cast<std::int32_t>(c));
  }
  PrunedNetwork pruned = full;
  pruned.columns = telling_columns(network.rows);
  if (pruned.columns.size() >= full.columns.size()) return full;
  pruned.spec.columns = static_cast<std::int64_t>(pruned.columns.size());
  TESSERA_TRY(const nn::Network before, nn::build_network(full.spec, {.batch = 1, .rows = 1}));
  TESSERA_TRY(const nn::Network after, nn::build_network(pruned.spec, {.batch = 1, .rows = 1}));
  if (before.parameters.size() != after.parameters.size()) return full;
  for (std::size_t i = 0; i < before.parameters.size(); ++i) {
    const nn::Parameter &old = before.parameters[i], &now = after.parameters[i];
    if (old.shape == now.shape) continue;
    // Only the reading axis of a product: its first, and what it is normalised by.
    Shape expected = old.shape;
    expected[0] = pruned.spec.columns;
    const bool reads = old.shape.size() == 2 && old.shape[0] == full.spec.columns &&
                       now.shape == expected && old.fan_in == full.spec.columns &&
                       now.fan_in == pruned.spec.columns;
    if (!reads) return full;
    HostTensor& weight = pruned.weights.at(old.name);
    weight = take_rows(weight, pruned.columns);
  }
  return pruned;
}

}  // namespace tessera::infer
