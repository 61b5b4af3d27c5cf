#include "tessera/learn/graphset/tuning_data.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>

#include "tessera/learn/graphset/hlo.h"
#include "tessera/learn/graphset/node_features.h"
#include "tessera/learn/graphset/opcodes.h"
#include "tessera/learn/graphset/wire.h"
#include "tessera/support/mapped_file.h"

namespace tessera::graphset {
namespace {

constexpr std::size_t kTensors = 3, kDims = 6;  // of a node's layout

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

// ---- the program ----

class GraphMaker {
 public:
  explicit GraphMaker(const HloModule& module) : module_(module) {}

  Result<ConfigGraph> make() {
    number_nodes();
    ConfigGraph graph;
    graph.name = module_.name;
    std::vector<float> features;
    for (std::size_t c = 0; c < module_.computations.size(); ++c) {
      const HloComputation& computation = module_.computations[c];
      for (const HloInstruction& i : computation.instructions) {
        append_node_features(i, i.id == computation.root, &features);
        graph.opcode.push_back(opcode_id(i.opcode));
        TESSERA_DO(add_edges(i, ids_[c], &graph));
      }
      add_split(computation, &graph);
    }
    if (graph.splits.back() != graph.nodes()) graph.splits.push_back(graph.nodes());
    std::sort(graph.edges.begin(), graph.edges.end());
    graph.node_feat = HostTensor(DType::kF32, {graph.nodes(), kNodeFeatures});
    std::copy(features.begin(), features.end(), graph.node_feat.as<float>());
    return graph;
  }

 private:
  using Ids = std::map<std::int64_t, std::int32_t>;  // nodes by id

  void number_nodes() {
    std::int32_t next = 0;
    for (const HloComputation& computation : module_.computations) {
      Ids& ids = ids_.emplace_back();
      for (const HloInstruction& i : computation.instructions) ids[i.id] = next++;
      const auto root = ids.find(computation.root);
      if (root != ids.end()) roots_[computation.id] = root->second;
    }
  }

  Result<void> add_edges(const HloInstruction& i, const Ids& beside, ConfigGraph* graph) const {
    const auto user = static_cast<std::int32_t>(graph->nodes() - 1);
    std::set<std::int32_t> sources;
    for (const std::int64_t id : i.operands) {
      const auto at = beside.find(id);
      if (at == beside.end()) return bad("{}: there is no operand {}", module_.name, id);
      sources.insert(at->second);
    }
    for (const std::int32_t source : sources) graph->edges.push_back({user, source});
    for (const std::int64_t id : i.called) {
      const auto at = roots_.find(id);
      if (at == roots_.end()) return bad("{}: there is no computation {}", module_.name, id);
      graph->edges.push_back({user, at->second});
    }
    return {};
  }

  // Small computations (reducers, fusions) open no part.
  static void add_split(const HloComputation& computation, ConfigGraph* graph) {
    if (graph->splits.empty()) graph->splits.push_back(0);
    for (const char* word : {"cluster", "while", "cond"}) {
      if (computation.name.find(word) == std::string::npos) continue;
      graph->splits.push_back(graph->nodes());
      return;
    }
  }

  const HloModule& module_;
  std::vector<Ids> ids_;  // by computation
  std::map<std::int64_t, std::int32_t> roots_;
};

// ---- the runs ----

struct Run {
  std::string_view layout, tile;  // LayoutConfig, TileSizeConfig; null data: absent
  bool failed = false, is_default = false;
  std::int64_t time_ns = 0;
};

// The message in field 1, which is all that the two kinds of configuration hold.
Result<std::string_view> only_message(std::string_view message) {
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(message));
  for (const WireField& f : fields) {
    if (f.id == 1 && f.is_bytes) return f.bytes;
  }
  return std::string_view();
}

Result<Run> parse_run(std::string_view bytes) {
  Run run;
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(bytes));
  for (const WireField& f : fields) {
    if (f.id == 1 || f.id == 2) {
      TESSERA_TRY((f.id == 1 ? run.tile : run.layout), only_message(f.bytes));
    }
    if (f.id == 3) run.failed = f.number != 0;
    if (f.id == 5) run.is_default = f.number != 0;
    if (f.id != 4) continue;
    TESSERA_TRY(const std::vector<WireField> profile, wire_fields(f.bytes));
    for (const WireField& p : profile) {
      if (p.id == 4) run.time_ns = p.integer();
    }
  }
  return run;
}

// Three lists of six for each configurable node, -1 where nothing is said.
Result<std::vector<float>> layout_features(std::string_view config, std::size_t nodes) {
  std::vector<float> out(nodes * kTensors * kDims, -1);
  std::size_t node = 0;
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(config));
  for (const WireField& f : fields) {
    if (f.id != 1) continue;
    if (node == nodes) return bad("a configuration of more than {} nodes", nodes);
    std::size_t tensor = 0;
    TESSERA_TRY(const std::vector<WireField> tensors, wire_fields(f.bytes));
    for (const WireField& t : tensors) {
      if (t.id != 1 || tensor == kTensors) continue;
      Integers dims;
      TESSERA_TRY(const std::vector<WireField> parts, wire_fields(t.bytes));
      for (const WireField& d : parts) {
        if (d.id == 1) TESSERA_DO(append_integers(d, &dims));
      }
      for (std::size_t d = 0; d < std::min(kDims, dims.size()); ++d) {
        out[(node * kTensors + tensor) * kDims + d] = static_cast<float>(dims[d]);
      }
      ++tensor;
    }
    ++node;
  }
  if (node != nodes) return bad("a configuration of {} nodes, not {}", node, nodes);
  return out;
}

// Kernel, output and input bounds: six each, their sum and product (0 of nothing).
Result<std::vector<float>> tile_features(std::string_view config) {
  Integers bounds[3];
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(config));
  for (const WireField& f : fields) {
    if (f.id >= 1 && f.id <= 3) TESSERA_DO(append_integers(f, &bounds[f.id - 1]));
  }
  std::vector<float> out;
  for (const Integers& list : bounds) {
    std::uint64_t sum = 0, product = list.empty() ? 0 : 1;
    for (const std::int64_t v : list) {
      sum += static_cast<std::uint64_t>(v);
      product *= static_cast<std::uint64_t>(v);
    }
    for (std::size_t i = 0; i < kDims; ++i) {
      out.push_back(i < list.size() ? static_cast<float>(list[i]) : 0);
    }
    out.push_back(static_cast<float>(static_cast<std::int64_t>(sum)));
    out.push_back(static_cast<float>(static_cast<std::int64_t>(product)));
  }
  return out;
}

// ---- a module ----

struct Module {
  std::string_view program;
  std::vector<Run> runs;
  Integers config_nodes;
};

Result<Module> parse_module(std::string_view bytes) {
  Module out;
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(bytes));
  for (const WireField& f : fields) {
    if (f.id == 1 && f.is_bytes) out.program = f.bytes;
    if (f.id == 3) {
      TESSERA_TRY(const Run run, parse_run(f.bytes));
      out.runs.push_back(run);
    }
    if (f.id == 4) TESSERA_DO(append_integers(f, &out.config_nodes));
  }
  if (out.program.empty()) return bad("tuning data without a program");
  return out;
}

HostTensor configs_of(const std::vector<std::vector<float>>& rows, std::int64_t places) {
  const auto size = static_cast<std::int64_t>(rows.front().size());
  HostTensor out(DType::kF32, {static_cast<std::int64_t>(rows.size()), places, size / places});
  float* to = out.as<float>();
  for (const std::vector<float>& row : rows) to = std::copy(row.begin(), row.end(), to);
  return out;
}

// Empty, or why TpuGraphs leaves the module out.
std::string reason_to_drop(const Module& module, bool layout) {
  const auto any = [&](auto&& f) { return std::any_of(module.runs.begin(), module.runs.end(), f); };
  if (!any([](const Run& r) { return r.is_default; })) return "no run of the default";
  if (layout) return "";
  if (module.runs.size() < 2) return "a single run";
  if (any([](const Run& r) { return r.tile.data() == nullptr; })) return "a run without tiles";
  return "";
}

Result<void> add_runs(const Module& module, bool layout, ConfigGraph* graph) {
  std::vector<std::vector<float>> rows;
  std::int64_t normalizer = 0;
  for (const Run& run : module.runs) {
    if (run.is_default && !run.failed) normalizer = run.time_ns;
    if (run.failed || run.time_ns <= (layout ? 0 : 1)) continue;
    if (layout && run.layout.data() == nullptr) continue;
    TESSERA_TRY(rows.emplace_back(), layout
                                         ? layout_features(run.layout, module.config_nodes.size())
                                         : tile_features(run.tile));
    graph->runtime_ns.push_back(run.time_ns);
  }
  if (rows.empty()) return bad("{}: no run has a time", graph->name);
  const std::int64_t places = layout ? static_cast<std::int64_t>(module.config_nodes.size()) : 1;
  if (places == 0) return bad("{}: no node can be configured", graph->name);
  graph->configs = configs_of(rows, places);
  if (layout) {
    for (const std::int64_t node : module.config_nodes) {
      graph->config_nodes.push_back(
          static_cast<std::int32_t>(std::clamp<std::int64_t>(node, -1, graph->nodes())));
    }
    return {};
  }
  graph->splits.clear();
  graph->normalizer_ns.assign(rows.size(), std::max<std::int64_t>(1, normalizer));
  return {};
}

Result<void> convert_module(std::string_view bytes, bool layout, Converted* out) {
  TESSERA_TRY(const Module module, parse_module(bytes));
  TESSERA_TRY(const HloModule program, parse_hlo(module.program));
  if (program.computations.empty()) return bad("{}: a program without computations", program.name);
  const std::string why = reason_to_drop(module, layout);
  out->runs += static_cast<std::int64_t>(module.runs.size());
  if (!why.empty()) {
    out->dropped.push_back(program.name + ": " + why);
    return {};
  }
  TESSERA_TRY(ConfigGraph graph, GraphMaker(program).make());
  graph.kind = layout ? Kind::kLayout : Kind::kTile;
  TESSERA_DO(add_runs(module, layout, &graph));
  if (const Result<void> good = check(graph); !good.ok()) {
    return good.error().with_context(program.name);
  }
  out->failed += static_cast<std::int64_t>(module.runs.size()) - graph.size();
  out->graphs.push_back(std::move(graph));
  return {};
}

}  // namespace

Result<Converted> convert_tuning_data(std::string_view bytes) {
  TESSERA_TRY(const std::vector<WireField> fields, wire_fields(bytes));
  if (fields.empty()) return bad("no tuning data");
  // TuningData has nothing but modules.
  const bool layout =
      std::any_of(fields.begin(), fields.end(), [](const WireField& f) { return f.id != 1; });
  Converted out;
  if (layout) {
    TESSERA_DO(convert_module(bytes, true, &out));
    return out;
  }
  for (const WireField& f : fields) {
    if (!f.is_bytes) return bad("no tuning data");
    TESSERA_DO(convert_module(f.bytes, false, &out));
  }
  return out;
}

Result<Converted> read_tuning_data(const std::string& path) {
  TESSERA_TRY(const MappedFile file, MappedFile::open(path));
  Result<Converted> out = convert_tuning_data(file.bytes());
  if (!out.ok()) return out.error().with_context(path);
  for (ConfigGraph& graph : out->graphs) {
    if (graph.name.empty()) graph.name = std::filesystem::path(path).stem().string();
  }
  return out;
}

}  // namespace tessera::graphset
