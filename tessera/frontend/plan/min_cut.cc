#include "tessera/frontend/plan/min_cut.h"

#include <algorithm>

namespace tessera::plan {

MinCut::MinCut() : edges_(2) {}

MinCut::Choice MinCut::add() {
  edges_.emplace_back();
  return static_cast<Choice>(edges_.size() - 1);
}

void MinCut::add_cost(Choice a, Choice b, std::int64_t cost) {
  if (a == b || cost == 0) return;
  auto &from = edges_[static_cast<std::size_t>(a)], &to = edges_[static_cast<std::size_t>(b)];
  from.push_back({b, cost, to.size()});
  to.push_back({a, 0, from.size() - 1});
}

// Distances from no() along edges with room; -1 where there is no way.
bool MinCut::find_levels() {
  level_.assign(edges_.size(), -1);
  level_[0] = 0;
  std::vector<Choice> queue = {no()};
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const Edge& e : edges_[static_cast<std::size_t>(queue[i])]) {
      if (e.room == 0 || level_[static_cast<std::size_t>(e.to)] >= 0) continue;
      level_[static_cast<std::size_t>(e.to)] = level_[static_cast<std::size_t>(queue[i])] + 1;
      queue.push_back(e.to);
    }
  }
  return level_[1] >= 0;
}

// Saturates one shortest path without recursion: networks are as deep as models are long.
std::int64_t MinCut::push_path() {
  std::vector<Edge*> path;
  std::size_t here = 0;
  while (here != 1) {
    auto& edges = edges_[here];
    std::size_t& i = next_[here];
    while (i < edges.size() && (edges[i].room == 0 ||
                                level_[static_cast<std::size_t>(edges[i].to)] != level_[here] + 1))
      ++i;
    if (i < edges.size()) {
      path.push_back(&edges[i]);
      here = static_cast<std::size_t>(edges[i].to);
      continue;
    }
    if (path.empty()) return 0;
    const Edge* last = path.back();
    path.pop_back();
    here = static_cast<std::size_t>(edges_[static_cast<std::size_t>(last->to)][last->back].to);
    ++next_[here];
  }
  std::int64_t room = kNever;
  for (const Edge* e : path) room = std::min(room, e->room);
  for (Edge* e : path) {
    e->room -= room;
    edges_[static_cast<std::size_t>(e->to)][e->back].room += room;
  }
  return room;
}

std::int64_t MinCut::solve() {
  std::int64_t total = 0;
  while (find_levels()) {
    next_.assign(edges_.size(), 0);
    while (const std::int64_t pushed = push_path()) total += pushed;
  }
  return total;
}

}  // namespace tessera::plan
