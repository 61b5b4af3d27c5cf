#include "tessera/learn/graphset/segments.h"

#include <algorithm>
#include <numeric>

namespace tessera::graphset {
namespace {

// Sources that one node is joined with through others: hubs would join all with all.
constexpr std::size_t kMostJoined = 64;

using Lists = std::vector<std::vector<std::int32_t>>;  // by node

std::size_t index(std::int32_t i) { return static_cast<std::size_t>(i); }

Lists sources_of(const ConfigGraph& graph) {
  Lists out(graph.opcode.size());
  for (const Edge& e : graph.edges) out[index(e.user)].push_back(e.source);
  return out;
}

// Whether a node stays.
std::vector<bool> near_configurable(const ConfigGraph& graph, std::int64_t hops) {
  if (hops < 0 || graph.kind == Kind::kTile) return std::vector<bool>(graph.opcode.size(), true);
  std::vector<bool> near(graph.opcode.size(), false);
  for (const std::int32_t node : graph.config_nodes) near[index(node)] = true;
  for (std::int64_t hop = 0; hop < hops; ++hop) {
    std::vector<bool> next = near;
    for (const Edge& e : graph.edges) {
      if (near[index(e.user)]) next[index(e.source)] = true;
      if (near[index(e.source)]) next[index(e.user)] = true;
    }
    if (next == near) break;
    near.swap(next);
  }
  return near;
}

// Edges between nodes that stay, also through those that do not, nearest first.
std::vector<Edge> joined_edges(const ConfigGraph& graph, const std::vector<bool>& stays) {
  const Lists sources = sources_of(graph);
  std::vector<std::int32_t> seen(graph.opcode.size(), -1);  // by whom last
  std::vector<Edge> out;
  for (std::int32_t user = 0; user < graph.nodes(); ++user) {
    if (!stays[index(user)]) continue;
    std::vector<std::int32_t> queue = {user};
    std::size_t joined = 0;
    for (std::size_t i = 0; i < queue.size() && joined < kMostJoined; ++i) {
      for (const std::int32_t source : sources[index(queue[i])]) {
        if (seen[index(source)] == user || joined == kMostJoined) continue;
        seen[index(source)] = user;
        if (!stays[index(source)]) {
          queue.push_back(source);
          continue;
        }
        if (source != user) out.push_back({user, source});
        ++joined;
      }
    }
  }
  return out;
}

}  // namespace

std::vector<Segment> cut(const ConfigGraph& graph, const CutOptions& options) {
  const std::vector<bool> stays = near_configurable(graph, options.hops);
  const std::vector<Edge> edges = joined_edges(graph, stays);
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, options.nodes));
  std::vector<Segment> segments;
  std::vector<std::int32_t> segment_of(graph.opcode.size(), -1), position(graph.opcode.size(), -1);
  for (std::int32_t node = 0; node < graph.nodes(); ++node) {
    if (!stays[index(node)]) continue;
    if (segments.empty() || segments.back().nodes.size() == most) segments.emplace_back();
    segment_of[index(node)] = static_cast<std::int32_t>(segments.size()) - 1;
    position[index(node)] = static_cast<std::int32_t>(segments.back().nodes.size());
    segments.back().nodes.push_back(node);
  }
  for (const Edge& e : edges) {
    if (segment_of[index(e.user)] != segment_of[index(e.source)]) continue;
    segments[index(segment_of[index(e.user)])].edges.push_back(
        {position[index(e.user)], position[index(e.source)]});
  }
  for (std::size_t p = 0; p < graph.config_nodes.size(); ++p) {
    const std::size_t node = index(graph.config_nodes[p]);
    Segment& segment = segments[index(segment_of[node])];
    segment.places.push_back(static_cast<std::int32_t>(p));
    segment.at.push_back(position[node]);
  }
  for (Segment& segment : segments) {
    std::sort(segment.edges.begin(), segment.edges.end());
    if (graph.kind == Kind::kTile) segment.places = {0};
  }
  std::erase_if(segments, [](const Segment& s) { return s.places.empty(); });
  return segments;
}

}  // namespace tessera::graphset
