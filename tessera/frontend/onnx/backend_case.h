// The ONNX backend tests: folders with model.onnx and test_data_set_<i>/{input,output}_<j>.pb.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tessera/frontend/onnx/import.h"

namespace tessera::onnx {

// Folders below `root` (itself included) that hold a model.onnx and at least one data set, sorted.
Result<std::vector<std::string>> find_backend_cases(const std::string& root);

struct DataSet {
  // Sequences and optional values are spelled out (backend_values.h).
  std::vector<HostTensor> inputs, outputs;
  // What to run instead of the case's model where it has such inputs or outputs.
  std::optional<Model> model;
};
// All data sets of a case in order. kUnsupported: a tensor of a type without DType.
Result<std::vector<DataSet>> load_data_sets(const std::string& folder, const Model& model);

// The inputs that a caller gives: those without an initializer.
std::vector<ValueInfo> real_inputs(const Model& model);

// As the ONNX runner compares: |got - want| <= 1e-7 + 1e-3 |want| for floats (1e-2 for f16 and
// bf16), exact otherwise, NaN equals NaN. Empty when equal, else what differs first.
std::string backend_mismatch(const HostTensor& got, const HostTensor& want);

enum class Verdict { kPass, kFail, kUnsupported };
const char* to_text(Verdict verdict);
struct CaseResult {
  Verdict verdict = Verdict::kFail;
  std::string reason;  // empty when passed
  bool eager = false;  // a data set was imported with the values of its inputs
};

struct CaseOptions {
  // Import with the values of all inputs instead of their shapes only.
  bool eager = false;
  // Values first where shapes alone give kDataDependent.
  bool eager_when_needed = true;
  ImportOptions import;
  // Of imports with values: what runs the nodes.
  graph::BuilderOptions eager_builder;
};

// How a case runs an imported graph; `tessera conformance` compiles, the default interprets.
using RunGraph = std::function<Result<std::vector<HostTensor>>(
    const graph::Graph& graph, const std::vector<HostTensor>& inputs)>;
CaseResult run_backend_case(const std::string& folder, const CaseOptions& options,
                            const RunGraph& run = graph::evaluate);

}  // namespace tessera::onnx
