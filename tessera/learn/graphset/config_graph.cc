#include "tessera/learn/graphset/config_graph.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>
#include <unordered_map>

namespace tessera::graphset {
namespace {

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

Result<void> check_floats(const HostTensor& tensor, std::size_t rank, const char* name) {
  if (tensor.dtype() != DType::kF32 || tensor.shape().size() != rank) {
    return bad("{} is {} {}, not f32 of rank {}", name, to_text(tensor.dtype()),
               to_text(tensor.shape()), rank);
  }
  const float* values = tensor.as<float>();
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (!std::isfinite(values[i])) return bad("{} has values that are not finite", name);
  }
  return {};
}

Result<void> check_edges(const ConfigGraph& g) {
  const auto inside = [&](std::int32_t node) { return node >= 0 && node < g.nodes(); };
  for (const Edge& e : g.edges) {
    if (!inside(e.user) || !inside(e.source)) {
      return bad("edge_index has ({}, {}), there are {} nodes", e.user, e.source, g.nodes());
    }
  }
  for (std::size_t i = 0; i < g.config_nodes.size(); ++i) {
    const bool ascends = i == 0 || g.config_nodes[i - 1] < g.config_nodes[i];
    if (!inside(g.config_nodes[i]) || !ascends) {
      return bad("node_config_ids are not ascending ids of {} nodes", g.nodes());
    }
  }
  return {};
}

Result<void> check_splits(const ConfigGraph& g) {
  const std::vector<std::int64_t>& s = g.splits;
  const bool ends = s.size() >= 2 && s.front() == 0 && s.back() == g.nodes();
  if (!ends || !std::is_sorted(s.begin(), s.end())) {
    return bad("node_splits do not ascend from 0 to {} nodes", g.nodes());
  }
  return {};
}

Result<void> check_times(const ConfigGraph& g) {
  const auto configs = static_cast<std::size_t>(g.size());
  const auto negative = [](std::int64_t t) { return t < 0; };
  if (g.runtime_ns.size() != configs) {
    return bad("config_runtime has {} values of {} configurations", g.runtime_ns.size(), configs);
  }
  if (std::any_of(g.runtime_ns.begin(), g.runtime_ns.end(), negative)) {
    return bad("config_runtime has negative times");
  }
  if (!g.estimate_ns.empty() && g.estimate_ns.size() != configs) {
    return bad("config_estimate has {} values of {} configurations", g.estimate_ns.size(), configs);
  }
  const auto below_one = [](std::int64_t t) { return t < 1; };
  if (std::any_of(g.estimate_ns.begin(), g.estimate_ns.end(), below_one)) {
    return bad("config_estimate has values below 1");
  }
  if (g.kind == Kind::kLayout) return {};
  if (g.normalizer_ns.size() != configs) {
    return bad("config_runtime_normalizers has {} values of {} configurations",
               g.normalizer_ns.size(), configs);
  }
  if (std::any_of(g.normalizer_ns.begin(), g.normalizer_ns.end(), below_one)) {
    return bad("config_runtime_normalizers has values below 1");
  }
  return {};
}

}  // namespace

const char* to_text(Kind kind) { return kind == Kind::kLayout ? "layout" : "tile"; }

bool ConfigGraph::labelled() const {
  return std::any_of(runtime_ns.begin(), runtime_ns.end(), [](std::int64_t t) { return t > 0; });
}

double ConfigGraph::cost(std::int64_t config) const {
  const auto i = static_cast<std::size_t>(config);
  const auto time = static_cast<double>(runtime_ns[i]);
  return kind == Kind::kTile ? time / static_cast<double>(normalizer_ns[i]) : time;
}

Result<void> check(const ConfigGraph& g) {
  TESSERA_DO(check_floats(g.node_feat, 2, "node_feat"));
  TESSERA_DO(check_floats(g.configs, 3, "the features of configurations"));
  if (g.nodes() < 1 || g.node_feat.shape()[0] != g.nodes() || g.columns() < 1) {
    return bad("node_feat is {}, node_opcode has {} nodes", to_text(g.node_feat.shape()),
               g.nodes());
  }
  TESSERA_DO(check_edges(g));
  const std::int64_t places =
      g.kind == Kind::kTile ? 1 : static_cast<std::int64_t>(g.config_nodes.size());
  if (g.places() != places || g.config_columns() < 1) {
    return bad("the features of configurations are {}, {} places can be configured",
               to_text(g.configs.shape()), places);
  }
  if (g.kind == Kind::kLayout) TESSERA_DO(check_splits(g));
  return check_times(g);
}

ConfigGraph take_configs(const ConfigGraph& graph, const std::vector<std::int64_t>& configs) {
  ConfigGraph out = graph;
  Shape shape = graph.configs.shape();
  shape[0] = static_cast<std::int64_t>(configs.size());
  out.configs = HostTensor(DType::kF32, shape);
  const auto row = static_cast<std::size_t>(shape[1] * shape[2]);
  out.runtime_ns.clear();
  out.normalizer_ns.clear();
  out.estimate_ns.clear();
  float* to = out.configs.as<float>();
  for (const std::int64_t i : configs) {
    if (row > 0) std::memcpy(to, graph.config(i), row * sizeof(float));
    to += row;
    out.runtime_ns.push_back(graph.runtime_ns[static_cast<std::size_t>(i)]);
    if (!graph.estimate_ns.empty()) {
      out.estimate_ns.push_back(graph.estimate_ns[static_cast<std::size_t>(i)]);
    }
    if (graph.kind == Kind::kTile) {
      out.normalizer_ns.push_back(graph.normalizer_ns[static_cast<std::size_t>(i)]);
    }
  }
  return out;
}

Result<ConfigGraph> join_configs(const ConfigGraph& a, const ConfigGraph& b) {
  if (a.kind != b.kind || a.opcode != b.opcode || a.edges != b.edges ||
      a.config_nodes != b.config_nodes || a.config_columns() != b.config_columns() ||
      a.size() == 0 || b.size() == 0) {
    return bad("{} and {} are not the same program", a.name, b.name);
  }
  const auto row = static_cast<std::size_t>(a.places() * a.config_columns());
  if (std::memcmp(a.config(0), b.config(0), row * sizeof(float)) != 0 || a.cost(0) <= 0 ||
      b.cost(0) <= 0) {
    return bad("{}: the sets do not begin with the same configuration", a.name);
  }
  ConfigGraph out = a;
  Shape shape = a.configs.shape();
  shape[0] += b.size();
  out.configs = HostTensor(DType::kF32, shape);
  std::memcpy(out.configs.data(), a.configs.data(), a.configs.bytes());
  std::memcpy(out.configs.as<float>() + static_cast<std::size_t>(a.size()) * row, b.configs.data(),
              b.configs.bytes());
  const double scale = a.cost(0) / b.cost(0);
  const bool estimated = !a.estimate_ns.empty() && !b.estimate_ns.empty();
  if (!estimated) out.estimate_ns.clear();
  // The parts of the first configuration are the same: what is believed of them differs as the
  // machine did.
  const double believed =
      estimated ? static_cast<double>(a.estimate_ns[0]) / static_cast<double>(b.estimate_ns[0]) : 1;
  for (std::size_t i = 0; i < b.runtime_ns.size(); ++i) {
    out.runtime_ns.push_back(std::llround(static_cast<double>(b.runtime_ns[i]) * scale));
    if (a.kind == Kind::kTile) out.normalizer_ns.push_back(b.normalizer_ns[i]);
    if (!estimated) continue;
    const double e = static_cast<double>(b.estimate_ns[i]) * believed;
    out.estimate_ns.push_back(std::max<std::int64_t>(1, std::llround(e)));
  }
  return out;
}

std::vector<std::vector<std::int64_t>> equal_configs(const ConfigGraph& graph) {
  const auto bytes =
      static_cast<std::size_t>(graph.places() * graph.config_columns()) * sizeof(float);
  std::vector<std::vector<std::int64_t>> groups;
  std::unordered_map<std::string_view, std::size_t> known;  // of bytes in `graph`
  for (std::int64_t i = 0; i < graph.size(); ++i) {
    const std::string_view key(reinterpret_cast<const char*>(graph.config(i)), bytes);
    const auto at = known.emplace(key, groups.size()).first;
    if (at->second == groups.size()) groups.emplace_back();
    groups[at->second].push_back(i);
  }
  return groups;
}

}  // namespace tessera::graphset
