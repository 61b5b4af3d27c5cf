#include "tessera/scheduling/space/row_group.h"

#include <algorithm>

#include "tessera/scheduling/space/inlining.h"

namespace tessera::space {
namespace {

AxisMap through(const Access& read, const Stage& user, const AxisMap& user_map, const Stage& p) {
  AxisMap out(user_map.size(), -1);
  for (std::size_t g = 0; g < user_map.size(); ++g) {
    for (std::size_t d = 0; d < p.rank() && user_map[g] >= 0; ++d) {
      const bool same = read.indices[d].single_axis() == user_map[g];
      if (same && p.extent(d) == user.extent(static_cast<std::size_t>(user_map[g])))
        out[g] = static_cast<int>(d);
    }
  }
  return out;
}

void merge(const AxisMap& more, AxisMap* map) {
  if (map->empty()) {
    *map = more;
    return;
  }
  for (std::size_t g = 0; g < more.size(); ++g) {
    if ((*map)[g] != more[g]) (*map)[g] = -1;
  }
}

}  // namespace

RowGroup::RowGroup(const Context& context, std::size_t nest) : context_(context), nest_(nest) {
  const Stage& h = context_.stage(nest);
  AxisMap own;
  for (std::size_t i = 0; i < h.rank(); ++i) own.push_back(static_cast<int>(i));
  maps_[nest] = own;
  for (std::size_t i = nest; i-- > 0;) try_member(i);
}

std::vector<std::size_t> RowGroup::members() const {
  std::vector<std::size_t> out;
  for (const auto& [stage, map] : maps_) {
    if (stage != nest_) out.push_back(stage);
  }
  return out;
}

std::vector<std::size_t> RowGroup::rows() const {
  std::vector<std::size_t> out;
  for (std::size_t g = 0; g < context_.stage(nest_).rank(); ++g) {
    const bool all = std::all_of(maps_.begin(), maps_.end(),
                                 [&](const auto& entry) { return entry.second[g] >= 0; });
    if (all) out.push_back(g);
  }
  return out;
}

void RowGroup::try_member(std::size_t i) {
  const Stage& p = context_.stage(i);
  if (context_.done[i] || p.output || p.users.empty() || is_contraction(p)) return;
  AxisMap map;
  for (const std::size_t user : p.users) {
    const auto it = maps_.find(user);
    if (it == maps_.end()) return;
    for (const Access& read : context_.stage(user).reads) {
      if (context_.analysis.producer(read.buffer) != static_cast<int>(i)) continue;
      merge(through(read, context_.stage(user), it->second, p), &map);
    }
  }
  maps_[i] = map;
  std::vector<std::size_t> common = rows();
  const Stage& h = context_.stage(nest_);
  if (std::none_of(common.begin(), common.end(), [&](std::size_t g) { return h.extent(g) > 1; }))
    maps_.erase(i);
}

}  // namespace tessera::space
