#include "tessera/frontend/plan/decider.h"

#include <algorithm>
#include <optional>

#include <fmt/ranges.h>

namespace tessera::plan {
namespace {

std::optional<std::int32_t> find(const std::vector<std::string>& values, const std::string& value) {
  const auto it = std::find(values.begin(), values.end(), value);
  if (it == values.end()) return std::nullopt;
  return static_cast<std::int32_t>(it - values.begin());
}

Error unknown(const std::string& key, const std::string& value,
              const std::vector<std::string>& known) {
  return make_error(ErrorCode::kInvalidArgument, "{}: cannot be '{}'; it can be: {}", key, value,
                    fmt::join(known, " "));
}

}  // namespace

Result<std::int32_t> Decider::answer(const Point& point) const {
  if (const auto own = given_.find(point.name); own != given_.end()) {
    if (const auto i = find(point.labels, own->second)) return *i;
    return unknown(point.name, own->second, point.labels);
  }
  const KindInfo& kind = info(point.kind);
  if (const auto all = given_.find(kind.family); all != given_.end()) {
    if (const auto i = find(point.labels, all->second)) return *i;
    if (!find(kind.values, all->second)) return unknown(kind.family, all->second, kind.values);
  }
  if (otherwise_) return otherwise_(point);
  return point.preferred;
}

Result<std::int32_t> Decider::decide(const Point& point) {
  const auto [it, added] = index_.try_emplace(point.name, decided_.size());
  if (added) {
    const Result<std::int32_t> value = answer(point);
    if (!value) {
      index_.erase(it);
      return value.error();
    }
    decided_.push_back({point, *value, 0});
  }
  Decided& decided = decided_[it->second];
  ++decided.count;
  return decided.value;
}

Decisions Decider::decisions() const {
  Decisions out;
  for (const Decided& d : decided_) out[d.point.name] = d.text();
  return out;
}

}  // namespace tessera::plan
