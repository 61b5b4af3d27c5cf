// fuse, reorder.
#include <algorithm>

#include <fmt/ranges.h>

#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {

std::string Fuse::args() const { return fmt::format("{} {}", stage, fmt::join(iters, " ")); }

Result<void> Fuse::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  if (iters.size() < 2) return illegal("fuse needs at least two loops");
  Relation relation{.kind = Relation::Kind::kFuse};
  Iter fused{.extent = 1};
  for (const std::string& name : iters) {
    TESSERA_TRY(const int id, s->find_leaf(name));
    const Iter& it = s->iters[static_cast<std::size_t>(id)];
    if (!relation.from.empty() && s->position(id) != s->position(relation.from.back()) + 1) {
      return illegal("loops {} and {} are not adjacent", fused.name, name);
    }
    if (it.annotation != Annotation::kNone) return illegal("loop {} is already annotated", name);
    if (!relation.from.empty() && it.reduce != fused.reduce)
      return illegal("cannot fuse reduce and spatial loops");
    fused.reduce = it.reduce;
    fused.extent *= it.extent;
    fused.name += (relation.from.empty() ? "" : "@") + name;
    relation.from.push_back(id);
  }
  for (const Stage& other : state.stages) {
    if (other.attach.kind != Attach::Kind::kAt || other.attach.stage != stage) continue;
    const auto hit = std::find(relation.from.begin(), relation.from.end(), other.attach.iter);
    if (hit != relation.from.end() && hit + 1 != relation.from.end()) {
      return illegal("stage {} is computed at {}, which is not the last of the fused loops",
                     other.name(), s->iters[static_cast<std::size_t>(*hit)].name);
    }
  }
  const int id = static_cast<int>(s->iters.size());
  relation.to = {id};
  s->iters.push_back(std::move(fused));
  const auto at = s->leaves.begin() + s->position(relation.from.front());
  s->leaves.insert(s->leaves.erase(at, at + static_cast<std::ptrdiff_t>(relation.from.size())), id);
  for (Stage& other : state.stages) {
    if (other.attach.kind == Attach::Kind::kAt && other.attach.stage == stage &&
        other.attach.iter == relation.from.back()) {
      other.attach.iter = id;
    }
  }
  for (Prefetch& p : s->prefetches) {
    p.iter = std::find(relation.from.begin(), relation.from.end(), p.iter) != relation.from.end()
                 ? id
                 : p.iter;
  }
  for (const int from : relation.from) {
    if (const auto it = s->auto_unroll.find(from); it != s->auto_unroll.end())
      s->auto_unroll[id] = it->second;
  }
  s->relations.push_back(std::move(relation));
  return {};
}

Result<Step> parse_fuse(ArgReader& args) {
  Fuse s;
  TESSERA_TRY(s.stage, args.word("stage"));
  s.iters = args.rest();
  return Step(s);
}

std::string Reorder::args() const { return fmt::format("{} {}", stage, fmt::join(iters, " ")); }

Result<void> Reorder::apply(State& state) const {
  TESSERA_TRY(Stage* const s, state.stage(stage));
  std::vector<int> order;
  for (const std::string& name : iters) {
    TESSERA_TRY(const int id, s->find_leaf(name));
    if (std::find(order.begin(), order.end(), id) != order.end())
      return illegal("loop {} is listed twice", name);
    order.push_back(id);
  }
  if (order.size() != s->leaves.size()) {
    return illegal("reorder lists {} of the {} loops of {}", order.size(), s->leaves.size(), stage);
  }
  s->leaves = order;
  return {};
}

Result<Step> parse_reorder(ArgReader& args) {
  Reorder s;
  TESSERA_TRY(s.stage, args.word("stage"));
  s.iters = args.rest();
  return Step(s);
}

}  // namespace tessera::schedule
