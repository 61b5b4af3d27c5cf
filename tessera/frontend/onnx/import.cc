#include "tessera/frontend/onnx/import.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "tessera/frontend/onnx/importer.h"
#include "tessera/frontend/onnx/model_files.h"

namespace tessera::onnx {
namespace {

// Messages of issues with this code, one per line.
std::string list_issues(const std::vector<Issue>& issues, ErrorCode code) {
  constexpr std::int64_t kShown = 50;
  std::string text;
  std::int64_t count = 0;
  for (const Issue& issue : issues) {
    if (issue.code != code) continue;
    if (++count <= kShown) text += (text.empty() ? "" : "\n") + issue.message;
  }
  if (count > kShown) text += fmt::format("\nand {} more", count - kShown);
  return text;
}

void count_nodes(const std::vector<Node>& nodes, const std::map<std::string, std::int64_t>& opsets,
                 CheckReport& report) {
  for (const Node& node : nodes) {
    ++report.nodes;
    const auto opset = opsets.find(node.domain);
    ++report.operators[fmt::format("{}{}{}-{}", node.domain, node.domain.empty() ? "" : ".",
                                   node.op_type, opset == opsets.end() ? 1 : opset->second)];
    for (const Attribute& a : node.attributes) {
      if (const auto* body = std::get_if<std::shared_ptr<const Graph>>(&a.value)) {
        count_nodes((*body)->nodes, opsets, report);
      }
    }
  }
}

}  // namespace

Result<graph::Graph> import_model(const Model& model, const ImportOptions& options) {
  Importer importer(model, options);
  TESSERA_TRY(graph::Graph graph, importer.run());
  for (const ErrorCode code : {ErrorCode::kUnsupported, ErrorCode::kDataDependent}) {
    std::string text = list_issues(importer.issues(), code);
    if (!text.empty()) return Error{code, std::move(text)};
  }
  return graph;
}

Result<SplitModel> split_model(const Model& model, const ImportOptions& options) {
  Importer importer(model, options);
  TESSERA_TRY(SplitModel split, importer.run_split());
  std::string refused = list_issues(importer.issues(), ErrorCode::kUnsupported);
  if (!refused.empty()) return Error{ErrorCode::kUnsupported, std::move(refused)};
  for (const Issue& issue : importer.issues()) {
    if (split.reason.empty()) split.reason = issue.message;
  }
  return split;
}

Result<Model> known_part(const Model& model, const ImportOptions& options) {
  TESSERA_TRY(const SplitModel split, split_model(model, options));
  std::set<std::string> waiting;
  for (const std::vector<Node>* nodes : {&split.ready, &split.later}) {
    for (const Node& node : *nodes) waiting.insert(node.outputs.begin(), node.outputs.end());
  }
  waiting.erase("");
  Model part = model;
  std::erase_if(part.graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.outputs,
                               [&](const auto& name) { return waiting.contains(name); });
  });
  part.graph.outputs.clear();
  for (std::size_t i = 0; i < split.known.outputs.size(); ++i) {
    const graph::TensorType& type = split.known.type(split.known.outputs[i]);
    ValueInfo info{split.known.output_names[i], to_text(type.dtype), true, {}};
    for (const std::int64_t size : type.shape) info.dims.push_back({size, ""});
    part.graph.outputs.push_back(std::move(info));
  }
  return part;
}

namespace {

Result<void> fill_report(const Model& model, const ImportOptions& options, CheckReport& report) {
  Importer importer(model, options);
  TESSERA_TRY(const graph::Graph graph, importer.run());
  for (const graph::Node& node : graph.nodes) {
    if (node.op->fusion != graph::Fusion::kHost) continue;
    const std::size_t space = std::min(node.origin.find(' '), node.origin.size());
    report.host.push_back({node.origin.substr(std::min(space + 1, node.origin.size())),
                           node.origin.substr(0, space), "runs on the host", node.op->name});
  }
  for (const Issue& issue : importer.issues()) {
    (issue.code == ErrorCode::kUnsupported ? report.unsupported : report.data_dependent)
        .push_back(issue.text);
  }
  const DimSizes& sizes = importer.sizes();
  for (const std::string& name : sizes.implied) report.implied[name] = sizes.sizes.at(name);
  for (const std::string& name : sizes.assumed) report.assumed[name] = sizes.sizes.at(name);
  return {};
}

}  // namespace

namespace {

CheckReport count_nodes(const Model& model) {
  CheckReport report;
  count_nodes(model.graph.nodes, model.opsets, report);
  for (const Function& f : model.functions) count_nodes(f.nodes, f.opsets, report);
  return report;
}

// `report` has the numbers of nodes.
Result<CheckReport> complete_report(const Model& model, const ImportOptions& options,
                                    const CheckReport& report) {
  // Sizes of images, sequences, little things and a second of sound, the most common first.
  constexpr std::array<std::int64_t, 7> kTried = {224, 640, 64, 512, 16, 1, 16000};
  const Result<ResolvedInputs> resolved = resolve_inputs(model.graph, options);
  ImportOptions tried = options;
  std::size_t next = 0;
  if (!resolved.ok()) {
    tried.assumed_size = kTried[next++];
    // What no size can mend is reported as it is.
    if (const auto again = resolve_inputs(model.graph, tried); !again.ok()) return again.error();
  }
  // The first size that everything is supported with, else the first that fits at all.
  std::optional<CheckReport> first;
  for (Error last;;) {
    CheckReport attempt = report;
    const Result<void> filled = fill_report(model, tried, attempt);
    if (filled.ok() && attempt.unsupported.empty()) return attempt;
    if (filled.ok() && !first) first = std::move(attempt);
    if (!filled.ok()) last = filled.error();
    if (resolved.ok() || next == kTried.size()) {
      if (first) return std::move(*first);
      return resolved.ok() ? last : resolved.error();
    }
    tried.assumed_size = kTried[next++];
  }
}

}  // namespace

Result<CheckReport> check_model(const Model& model, const ImportOptions& options) {
  return complete_report(model, options, count_nodes(model));
}

std::optional<CheckReport> check_outline(const Model& outline, const ImportOptions& options) {
  const std::optional<Model> open = with_open_weights(outline);
  // Who names a weight as if it were an input is told so by check_model.
  const auto names_weight = [&](const auto& given) {
    return std::ranges::any_of(given, [&](const auto& item) {
      return std::ranges::none_of(outline.graph.inputs,
                                  [&](const ValueInfo& v) { return v.name == item.first; });
    });
  };
  if (!open || names_weight(options.shapes) || names_weight(options.values) ||
      names_weight(options.literals)) {
    return std::nullopt;
  }
  std::vector<std::string> warnings;
  ImportOptions quiet = options;
  quiet.warn = [&](const std::string& w) { warnings.push_back(w); };
  Result<CheckReport> report = complete_report(*open, quiet, count_nodes(outline));
  if (!report || !report->unsupported.empty() || !report->data_dependent.empty() ||
      !report->host.empty()) {
    return std::nullopt;
  }
  for (const std::string& w : warnings) {
    if (options.warn) options.warn(w);
  }
  return std::move(*report);
}

}  // namespace tessera::onnx
