#include "tessera/learn/graphset/npz_file.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>

#include "tessera/support/mapped_file.h"
#include "tessera/support/npz.h"
#include "tessera/support/zip.h"

namespace tessera::graphset {
namespace {

using Arrays = std::map<std::string, HostTensor>;

template <class... Args>
Error bad(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

Result<Arrays> read_arrays(const std::string& path, std::uint64_t most_bytes) {
  TESSERA_TRY(const MappedFile file, MappedFile::open(path));
  TESSERA_TRY(std::vector<ZipEntry> entries, parse_zip(file.bytes(), most_bytes));
  Arrays arrays;
  for (ZipEntry& entry : entries) {
    std::string name = entry.name.substr(0, entry.name.find(".npy"));
    Result<HostTensor> tensor = parse_npy(entry.bytes);
    if (!tensor.ok()) return tensor.error().with_context(entry.name);
    arrays[std::move(name)] = std::move(*tensor);
    std::string().swap(entry.bytes);  // so that both are never there for all arrays
  }
  return arrays;
}

Result<HostTensor> array(const Arrays& arrays, const char* name) {
  const auto it = arrays.find(name);
  if (it == arrays.end()) return bad("there is no array {}", name);
  return it->second;
}

// In row-major order, of any shape.
template <class T>
Result<std::vector<T>> integers(const Arrays& arrays, const char* name) {
  TESSERA_TRY(const HostTensor tensor, array(arrays, name));
  if (is_float(tensor.dtype())) return bad("{} has type {}", name, to_text(tensor.dtype()));
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(tensor.size()));
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    const std::int64_t v = tensor.get_int(i);
    if (v < std::numeric_limits<T>::min() || v > std::numeric_limits<T>::max()) {
      return bad("{} has {}, which is out of range", name, v);
    }
    out.push_back(static_cast<T>(v));
  }
  return out;
}

Result<void> read_edges(const Arrays& arrays, ConfigGraph* graph) {
  TESSERA_TRY(const HostTensor pairs, array(arrays, "edge_index"));
  if (pairs.shape().size() != 2 || pairs.shape()[1] != 2) {
    return bad("edge_index is {}, not [edges, 2]", to_text(pairs.shape()));
  }
  TESSERA_TRY(const auto ends, integers<std::int32_t>(arrays, "edge_index"));
  for (std::size_t i = 0; i < ends.size(); i += 2) {
    graph->edges.push_back({ends[i], ends[i + 1]});
  }
  return {};
}

Result<void> read_configs(const Arrays& arrays, ConfigGraph* graph) {
  const bool layout = arrays.count("node_config_feat") > 0;
  graph->kind = layout ? Kind::kLayout : Kind::kTile;
  if (layout) {
    graph->configs = arrays.at("node_config_feat");
    TESSERA_TRY(graph->config_nodes, integers<std::int32_t>(arrays, "node_config_ids"));
    TESSERA_TRY(graph->splits, integers<std::int64_t>(arrays, "node_splits"));
    return {};
  }
  if (arrays.count("config_feat") == 0) {
    return bad("neither node_config_feat (layout) nor config_feat (tile): no set of TpuGraphs");
  }
  const HostTensor& feat = arrays.at("config_feat");
  if (feat.shape().size() != 2 || feat.dtype() != DType::kF32) {
    return bad("config_feat is {} {}, not f32 [configurations, columns]", to_text(feat.dtype()),
               to_text(feat.shape()));
  }
  graph->configs = HostTensor(DType::kF32, {feat.shape()[0], 1, feat.shape()[1]});
  std::copy_n(feat.as<float>(), feat.size(), graph->configs.as<float>());
  TESSERA_TRY(graph->normalizer_ns, integers<std::int64_t>(arrays, "config_runtime_normalizers"));
  return {};
}

Result<ConfigGraph> read_checked(const std::string& path, std::uint64_t most_bytes) {
  TESSERA_TRY(const Arrays arrays, read_arrays(path, most_bytes));
  ConfigGraph graph;
  graph.name = std::filesystem::path(path).stem().string();
  TESSERA_TRY(graph.node_feat, array(arrays, "node_feat"));
  TESSERA_TRY(graph.opcode, integers<std::uint8_t>(arrays, "node_opcode"));
  TESSERA_DO(read_edges(arrays, &graph));
  TESSERA_DO(read_configs(arrays, &graph));
  TESSERA_TRY(graph.runtime_ns, integers<std::int64_t>(arrays, "config_runtime"));
  if (arrays.contains("config_estimate")) {
    TESSERA_TRY(graph.estimate_ns, integers<std::int64_t>(arrays, "config_estimate"));
  }
  TESSERA_DO(check(graph));
  return graph;
}

template <class T>
HostTensor tensor_of(DType dtype, Shape shape, const std::vector<T>& values) {
  HostTensor out(dtype, std::move(shape));
  for (std::size_t i = 0; i < values.size(); ++i) {
    out.set_int(static_cast<std::int64_t>(i), static_cast<std::int64_t>(values[i]));
  }
  return out;
}

template <class T>
HostTensor vector_of(DType dtype, const std::vector<T>& values) {
  return tensor_of(dtype, {static_cast<std::int64_t>(values.size())}, values);
}

}  // namespace

Result<ConfigGraph> read_graph(const std::string& path, std::uint64_t most_bytes) {
  Result<ConfigGraph> graph = read_checked(path, most_bytes);
  if (graph.ok() || graph.error().message.starts_with(path)) return graph;
  return graph.error().with_context(path);
}

Result<void> write_graph(const std::string& path, const ConfigGraph& graph) {
  if (const Result<void> good = check(graph); !good.ok()) return good.error().with_context(path);
  std::vector<std::int32_t> ends;
  for (const Edge& e : graph.edges) ends.insert(ends.end(), {e.user, e.source});
  NamedTensors tensors = {
      {"node_feat", graph.node_feat},
      {"node_opcode", vector_of(DType::kU8, graph.opcode)},
      {"edge_index",
       tensor_of(DType::kI64, {static_cast<std::int64_t>(graph.edges.size()), 2}, ends)},
      {"config_runtime", vector_of(DType::kI64, graph.runtime_ns)}};
  if (!graph.estimate_ns.empty()) {
    tensors.push_back({"config_estimate", vector_of(DType::kI64, graph.estimate_ns)});
  }
  if (graph.kind == Kind::kLayout) {
    tensors.push_back({"node_config_feat", graph.configs});
    tensors.push_back({"node_config_ids", vector_of(DType::kI64, graph.config_nodes)});
    tensors.push_back(
        {"node_splits", tensor_of(DType::kI64, {1, static_cast<std::int64_t>(graph.splits.size())},
                                  graph.splits)});
  } else {
    HostTensor feat(DType::kF32, {graph.size(), graph.config_columns()});
    std::copy_n(graph.configs.as<float>(), feat.size(), feat.as<float>());
    tensors.push_back({"config_feat", std::move(feat)});
    tensors.push_back({"config_runtime_normalizers", vector_of(DType::kI64, graph.normalizer_ns)});
  }
  return write_npz(path, tensors, /*compress=*/true);
}

}  // namespace tessera::graphset
