#include "tessera/app/report/describe_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include <fmt/ranges.h>

#include "tessera/app/compile/load_graph.h"
#include "tessera/backend/artifact/metadata.h"
#include "tessera/frontend/plan/plan.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/model_name.h"
#include "tessera/support/safetensors.h"
#include "tessera/trials/record/database.h"

namespace tessera::report {
namespace {

namespace fs = std::filesystem;
std::int64_t bytes_below(const std::string& path) {
  std::error_code error;
  if (fs::is_regular_file(path, error)) return static_cast<std::int64_t>(fs::file_size(path));
  std::int64_t sum = 0;
  for (const fs::directory_entry& f : fs::recursive_directory_iterator(path, error)) {
    if (f.is_regular_file(error)) sum += static_cast<std::int64_t>(f.file_size(error));
  }
  return sum;
}

Json header(const std::string& path, const char* kind) {
  return {{"path", path}, {"kind", kind}, {"bytes", bytes_below(path)}};
}

// Sizes as numbers, symbolic ones as their names, "?" where the file has neither.
Json to_json(const onnx::ValueInfo& v, std::set<std::string>* symbols) {
  Json dims = Json::array();
  for (const onnx::Dim& d : v.dims) {
    if (d.size >= 0) {
      dims.push_back(d.size);
    } else {
      dims.push_back(d.symbol.empty() ? "?" : d.symbol);
      if (!d.symbol.empty()) symbols->insert(d.symbol);
    }
  }
  return {{"name", v.name}, {"type", v.type}, {"shape", v.has_shape ? dims : Json("any")}};
}

// What is in a graph and in the bodies of its If, Loop and Scan.
struct Contents {
  std::map<std::string, std::int64_t> operators;
  std::int64_t parameters = 0, bytes = 0;

  void add(const HostTensor& tensor) {
    parameters += tensor.size();
    bytes += static_cast<std::int64_t>(tensor.bytes());
  }

  void add(const onnx::Graph& graph) {
    for (const onnx::Initializer& i : graph.initializers) {
      if (const auto* tensor = std::get_if<HostTensor>(&i.value)) add(*tensor);
    }
    for (const onnx::Node& n : graph.nodes) {
      ++operators[n.domain.empty() ? n.op_type : n.domain + "." + n.op_type];
      for (const onnx::Attribute& a : n.attributes) {
        if (const auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value)) {
          add(**body);
        }
        // Some exporters write weights as nodes.
        const auto* constant = std::get_if<HostTensor>(&a.value);
        if (constant != nullptr && n.op_type == "Constant") add(*constant);
      }
    }
  }
};

Result<Json> describe_model(const std::string& path) {
  TESSERA_TRY(const onnx::Model model, app::load_outline(path));
  Json out = header(path, "model");
  out["producer"] = model.producer;
  out["ir_version"] = model.ir_version;
  Json opsets = Json::object();
  for (const auto& [domain, version] : model.opsets)
    opsets[domain.empty() ? "ai.onnx" : domain] = version;
  out["opsets"] = std::move(opsets);
  std::set<std::string> initialized, symbols;
  for (const onnx::Initializer& i : model.graph.initializers) initialized.insert(i.name);
  out["inputs"] = Json::array();
  for (const onnx::ValueInfo& v : model.graph.inputs) {
    if (!initialized.contains(v.name)) out["inputs"].push_back(to_json(v, &symbols));
  }
  out["outputs"] = Json::array();
  for (const onnx::ValueInfo& v : model.graph.outputs)
    out["outputs"].push_back(to_json(v, &symbols));
  out["symbolic_dims"] = symbols;
  Contents contents;
  contents.add(model.graph);
  out["parameters"] = contents.parameters;
  out["parameter_bytes"] = contents.bytes;
  out["nodes"] = model.graph.nodes.size();
  out["functions"] = model.functions.size();
  out["operators"] = contents.operators;
  return out;
}

Json to_json(const std::vector<artifact::TensorDescription>& tensors) {
  Json out = Json::array();
  for (const artifact::TensorDescription& t : tensors)
    out.push_back({{"name", t.name}, {"type", to_text(t.dtype)}, {"shape", t.shape}});
  return out;
}

// In the order in which they are tried.
Json variants_to_json(const artifact::Metadata& m) {
  const target::Target& host = target::host();
  Json out = Json::array();
  for (const artifact::VariantDescription& v : m.variants) {
    const bool fits =
        host.triple == m.triple && std::ranges::all_of(v.features, [&](const std::string& feature) {
          return target::has_feature(host.features, feature);
        });
    out.push_back(
        {{"name", v.name}, {"runs_here", fits ? "runs here" : "not here"}, {"needs", v.features}});
  }
  return out;
}

Result<Json> describe_artifact(const std::string& path) {
  TESSERA_TRY(const artifact::Metadata m, artifact::read_metadata(path));
  Json out = header(path, "artifact");
  out.update({{"name", m.name},
              {"library", m.library},
              {"made_by", "tessera " + m.tessera_version},
              {"made_for", m.target},
              {"device", target::to_text(m.device)},
              {"triple", m.triple},
              {"needs", m.features},
              {"code", m.code},
              {"weights", m.weights_file.empty() ? "embedded" : m.weights_file},
              {"weights_bytes", m.weights_bytes},
              {"arena_bytes", m.arena_bytes},
              {"inputs", to_json(m.inputs)},
              {"outputs", to_json(m.outputs)}});
  if (!m.variants.empty()) out["variants"] = variants_to_json(m);
  std::map<std::string, std::int64_t> kernels;
  for (const artifact::StepDescription& s : m.steps) ++kernels[s.name];
  out["steps"] = m.steps.size();
  out["kernels"] = kernels;
  return out;
}

Result<Json> describe_plan(const std::string& path) {
  TESSERA_TRY(const plan::Plan plan, plan::load_plan(path));
  Json out = header(path, "plan");
  out["made_for"] = plan.model;
  out["target"] = plan.target;
  out["threads"] = plan.threads;
  out["decisions"] = plan.decisions;
  out["tasks"] = Json::array();
  for (const auto& [key, entry] : plan.tasks) {
    out["tasks"].push_back({{"key", key},
                            {"us", entry.seconds > 0 ? Json(entry.seconds * 1e6) : Json()},
                            {"name", entry.name}});
  }
  return out;
}

Result<Json> describe_database(const std::string& path) {
  TESSERA_TRY(const record::Database database, record::Database::open_read_only(path));
  Json out = header(path, "database of records");
  TESSERA_TRY(const std::int64_t records, database.count({.subject = std::nullopt}));
  TESSERA_TRY(const std::int64_t timed,
              database.count({.timed_only = true, .subject = std::nullopt}));
  TESSERA_TRY(const std::vector<record::TaskRow> tasks, database.tasks());
  TESSERA_TRY(const std::vector<std::string> targets, database.targets());
  TESSERA_TRY(const std::vector<record::SessionRow> sessions, database.sessions());
  out["records"] = records;
  out["timed"] = timed;
  out["tasks"] = tasks.size();
  out["made_on"] = targets;
  out["sessions"] = Json::array();
  for (const record::SessionRow& s : sessions) {
    out["sessions"].push_back(
        {{"id", s.id}, {"state", s.state}, {"records", s.records}, {"model", s.model}});
  }
  return out;
}

// Of a note "targets" ("host triple=... cpu=NAME ... threads=N; ..."): the machines, each once.
std::vector<std::string> trained_for(const std::map<std::string, std::string>& notes) {
  std::vector<std::string> out;
  for (const char* name : {"note.targets", "targets"}) {
    const auto found = notes.find(name);
    if (found == notes.end()) continue;
    std::istringstream targets(found->second);
    for (std::string target; std::getline(targets, target, ';');) {
      std::istringstream words(target);
      std::string cpu, threads;
      for (std::string word; words >> word;) {
        if (word.starts_with("cpu=")) cpu = word.substr(4);
        if (word.starts_with("threads=")) threads = word.substr(8);
      }
      const std::string machine =
          cpu.empty() ? target : fmt::format("{} with threads={}", cpu, threads);
      if (std::find(out.begin(), out.end(), machine) == out.end()) out.push_back(machine);
    }
  }
  return out;
}

Result<Json> describe_weights(const std::string& path) {
  TESSERA_TRY(const Safetensors file, read_safetensors(path));
  Json out = header(path, "weights");
  std::int64_t parameters = 0;
  for (const NamedTensor& t : file.tensors) parameters += t.tensor.size();
  out["tensors"] = file.tensors.size();
  out["parameters"] = parameters;
  out["made_for"] = trained_for(file.metadata);
  out["notes"] = file.metadata;
  return out;
}

Result<Json> describe_trees(const std::string& path) {
  TESSERA_TRY(const model::ModelFile file, model::read_model_file(path));
  Json out = header(path, "weights");
  out.update({{"model", file.kind},
              {"objective", file.objective},
              {"columns", file.columns},
              {"members", file.parts.size()},
              {"made_for", trained_for(file.notes)},
              {"notes", file.notes}});
  return out;
}

// The first bytes, which tell the formats apart.
std::string beginning(const std::string& path) {
  std::string bytes(16, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(std::max<std::streamsize>(0, file.gcount())));
  return bytes;
}

}  // namespace

Result<Json> describe_file(const std::string& path) {
  if (is_built_in(path)) return describe_model(path);
  std::error_code error;
  if (!fs::exists(path, error)) {
    return make_error(ErrorCode::kIo, "{}: there is no such file or folder", path);
  }
  if (artifact::is_artifact(path)) return describe_artifact(path);
  if (fs::is_directory(path, error)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: is a folder, and no artifact; of datasets see `tessera dataset show`",
                      path);
  }
  const std::string begin = beginning(path);
  if (begin.starts_with("SQLite format 3")) return describe_database(path);
  if (begin.starts_with("{")) return describe_plan(path);
  if (begin.size() > 8 && begin[8] == '{') return describe_weights(path);
  if (begin.starts_with("tessera")) return describe_trees(path);
  return describe_model(path);
}

}  // namespace tessera::report
