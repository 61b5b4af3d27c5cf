#include "tessera/frontend/onnx/backend_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "tessera/frontend/onnx/backend_values.h"
#include "tessera/support/mapped_file.h"

namespace tessera::onnx {
namespace {

namespace fs = std::filesystem;

Result<BackendValue> load_value(const fs::path& path, const std::string& type) {
  TESSERA_TRY(const MappedFile file, MappedFile::open(path.string()));
  auto value = parse_backend_value(file.bytes(), type);
  if (!value.ok()) return value.error().with_context(path.filename().string());
  return value;
}

// The files say nothing about their kind: a map parses as a tensor of nonsense.
Result<void> check_types(const std::vector<ValueInfo>& values) {
  for (const ValueInfo& v : values) {
    if (!is_backend_type(v.type)) {
      return make_error(ErrorCode::kUnsupported, "'{}' is of type {}", v.name, v.type);
    }
  }
  return {};
}

// NumPy has no bf16: the data files store its bits as u16.
void reinterpret_bf16(const std::string& type, BackendValue& value) {
  if (type != "bf16" || value.tensors[0].dtype() != DType::kU16) return;
  HostTensor bits(DType::kBF16, value.tensors[0].shape());
  std::memcpy(bits.data(), value.tensors[0].data(), bits.bytes());
  value.tensors[0] = std::move(bits);
}

// The files of one side of a data set, in order; `declared` gives their types.
Result<std::vector<BackendValue>> load_series(const fs::path& folder, const char* prefix,
                                              const std::vector<ValueInfo>& declared) {
  std::vector<BackendValue> values;
  for (std::size_t i = 0;; ++i) {
    const fs::path path = folder / fmt::format("{}_{}.pb", prefix, i);
    if (!fs::exists(path)) return values;
    const std::string type = i < declared.size() ? declared[i].type : "undefined";
    TESSERA_TRY(BackendValue value, load_value(path, type));
    reinterpret_bf16(type, value);
    values.push_back(std::move(value));
  }
}

bool has_tensors_only(const std::vector<ValueInfo>& values) {
  return std::all_of(values.begin(), values.end(),
                     [](const ValueInfo& v) { return dtype_from_text(v.type).has_value(); });
}

bool same_element(const HostTensor& got, const HostTensor& want, std::int64_t i) {
  if (!is_float(want.dtype())) return got.get_int(i) == want.get_int(i);
  const double g = got.get_float(i);
  const double w = want.get_float(i);
  if (std::isnan(g) || std::isnan(w)) return std::isnan(g) == std::isnan(w);
  if (std::isinf(g) || std::isinf(w)) return g == w;
  const bool narrow = want.dtype() == DType::kF16 || want.dtype() == DType::kBF16;
  return std::abs(g - w) <= 1e-7 + (narrow ? 1e-2 : 1e-3) * std::abs(w);
}

std::string element_text(const HostTensor& t, std::int64_t i) {
  return is_float(t.dtype()) ? fmt::format("{:.9g}", t.get_float(i)) : std::to_string(t.get_int(i));
}

CaseResult from_error(const Error& error) {
  const bool unsupported = error.code == ErrorCode::kUnsupported;
  return {unsupported ? Verdict::kUnsupported : Verdict::kFail,
          fmt::format("{}: {}", to_text(error.code), error.message), false};
}

// Inputs beyond the data of the set keep their defaults.
ImportOptions with_data(const Model& model, const DataSet& set, const CaseOptions& options,
                        bool values) {
  ImportOptions import = options.import;
  import.override_declared = true;  // some cases declare shapes that their data does not have
  if (values) import.builder = options.eager_builder;
  const std::vector<ValueInfo> inputs = real_inputs(model);
  for (std::size_t i = 0; i < std::min(inputs.size(), set.inputs.size()); ++i) {
    if (values) {
      import.values.emplace(inputs[i].name, set.inputs[i]);
    } else {
      import.shapes.emplace(inputs[i].name, set.inputs[i].shape());
    }
  }
  return import;
}

// *eager becomes true when the values of the inputs were needed.
Result<std::vector<HostTensor>> run_set(const Model& model, const DataSet& set,
                                        const CaseOptions& options, const RunGraph& run,
                                        bool* eager) {
  *eager = options.eager;
  auto graph = import_model(model, with_data(model, set, options, *eager));
  if (!graph.ok() && graph.error().code == ErrorCode::kDataDependent && !*eager &&
      options.eager_when_needed) {
    *eager = true;
    graph = import_model(model, with_data(model, set, options, true));
  }
  if (!graph.ok()) return graph.error();
  return run(*graph, *eager ? std::vector<HostTensor>{} : set.inputs);
}

std::string compare_set(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want) {
  if (got.size() < want.size()) return fmt::format("{} outputs, want {}", got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const std::string bad = backend_mismatch(got[i], want[i]);
    if (!bad.empty()) return fmt::format("output {}: {}", i, bad);
  }
  return "";
}

}  // namespace

const char* to_text(Verdict verdict) {
  switch (verdict) {
    case Verdict::kPass:
      return "pass";
    case Verdict::kFail:
      return "fail";
    case Verdict::kUnsupported:
      return "unsupported";
  }
  return "unknown";
}

Result<std::vector<std::string>> find_backend_cases(const std::string& root) {
  std::error_code status;
  std::vector<std::string> cases;
  const auto is_case = [](const fs::path& folder) {
    std::error_code ignored;
    return fs::exists(folder / "model.onnx", ignored) &&
           fs::exists(folder / "test_data_set_0", ignored);
  };
  if (is_case(root)) cases.push_back(root);
  for (fs::recursive_directory_iterator it(root, status), end; !status && it != end;
       it.increment(status)) {
    if (it->is_directory() && is_case(it->path())) cases.push_back(it->path().string());
  }
  if (status) {
    return make_error(ErrorCode::kIo, "cannot list '{}': {}", root, status.message());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

std::vector<ValueInfo> real_inputs(const Model& model) {
  std::set<std::string> initialized;
  for (const Initializer& i : model.graph.initializers) initialized.insert(i.name);
  std::vector<ValueInfo> inputs;
  for (const ValueInfo& v : model.graph.inputs) {
    if (initialized.count(v.name) == 0) inputs.push_back(v);
  }
  return inputs;
}

Result<std::vector<DataSet>> load_data_sets(const std::string& folder, const Model& model) {
  const std::vector<ValueInfo> inputs = real_inputs(model);
  const std::vector<ValueInfo>& outputs = model.graph.outputs;
  TESSERA_DO(check_types(inputs));
  TESSERA_DO(check_types(outputs));
  std::vector<DataSet> sets;
  for (int i = 0;; ++i) {
    const fs::path set_folder = fs::path(folder) / fmt::format("test_data_set_{}", i);
    if (!fs::exists(set_folder)) return sets;
    DataSet set;
    TESSERA_TRY(const auto given, load_series(set_folder, "input", inputs));
    TESSERA_TRY(const auto wanted, load_series(set_folder, "output", outputs));
    set.inputs = input_tensors(given);
    set.outputs = output_tensors(wanted);
    if (!has_tensors_only(inputs) || !has_tensors_only(outputs)) {
      TESSERA_TRY(set.model, with_tensor_border(model, given, wanted));
    }
    sets.push_back(std::move(set));
  }
}

std::string backend_mismatch(const HostTensor& got, const HostTensor& want) {
  if (got.dtype() != want.dtype() || got.shape() != want.shape()) {
    return fmt::format("{}, want {}", graph::to_text(graph::TensorType{got.dtype(), got.shape()}),
                       graph::to_text(graph::TensorType{want.dtype(), want.shape()}));
  }
  std::int64_t bad = 0, first = 0;
  for (std::int64_t i = 0; i < want.size(); ++i) {
    if (same_element(got, want, i)) continue;
    if (bad++ == 0) first = i;
  }
  if (bad == 0) return "";
  return fmt::format("{} of {} elements differ, first [{}]: {}, want {}", bad, want.size(), first,
                     element_text(got, first), element_text(want, first));
}

CaseResult run_backend_case(const std::string& folder, const CaseOptions& options,
                            const RunGraph& run) {
  const auto model = load_model((fs::path(folder) / "model.onnx").string());
  if (!model.ok()) return from_error(model.error());
  const auto sets = load_data_sets(folder, *model);
  if (!sets.ok()) return from_error(sets.error());
  if (sets->empty()) return {Verdict::kFail, "no data set", false};
  CaseResult result{Verdict::kPass, "", false};
  for (const DataSet& set : *sets) {
    bool eager = false;
    const auto got = run_set(set.model ? *set.model : *model, set, options, run, &eager);
    result.eager = result.eager || eager;
    if (!got.ok()) return from_error(got.error());
    const std::string bad = compare_set(*got, set.outputs);
    if (!bad.empty()) return {Verdict::kFail, bad, result.eager};
  }
  return result;
}

}  // namespace tessera::onnx
