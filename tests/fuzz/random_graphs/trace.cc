#include "trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/frontend/graph/op.h"
#include "tessera/frontend/graph/roundings.h"
#include "tessera/frontend/onnx/import.h"
#include "tests/onnx/model_builder.h"

namespace tessera::fuzz {
namespace {

// All up, all down, and two that mix.
constexpr std::size_t kShadows = 4;
// The largest magnitude of a float: beyond it, absolute errors of sums hide what is compared.
constexpr double kLargest = 1e4, kLargestHalf = 1e3;

bool gives_sequence(const onnx::Node& node) {
  constexpr const char* kOps[] = {"SequenceConstruct", "SequenceEmpty", "SequenceErase",
                                  "SequenceInsert",    "SequenceMap",   "SplitToSequence",
                                  "Optional"};
  return std::find(std::begin(kOps), std::end(kOps), node.op_type) != std::end(kOps);
}

// Operators that round a quotient to integers: one more rounding of an input moves the border.
bool rounds_inside(const onnx::Node& node) {
  return node.op_type.rfind("Q", 0) == 0 || node.op_type.rfind("Dynamic", 0) == 0;
}

// +1 or -1, the same in every run.
double sign_of(std::size_t shadow, const std::string& name, std::int64_t i) {
  if (shadow < 2) return shadow == 0 ? 1 : -1;
  return Rng(std::hash<std::string>()(name) + static_cast<std::uint64_t>(i) * 977 + shadow).next() %
                     2 ==
                 0
             ? 1
             : -1;
}

double largest(const HostTensor& t) {
  double most = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) most = std::fmax(most, std::fabs(t.get_float(i)));
  return most;
}

HostTensor shifted(const HostTensor& t, double amount, std::size_t shadow,
                   const std::string& name) {
  if (!is_float(t.dtype()) || amount == 0) return t;
  HostTensor out = t.clone();
  const double most = largest(t);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const double v = t.get_float(i), scale = 0.75 * std::fabs(v) + 0.25 * most;
    out.set_float(i, v + sign_of(shadow, name, i) * amount * scale);
  }
  return out;
}

Error refused(const onnx::Node& node, const std::string& why) {
  return make_error(ErrorCode::kInvalidArgument, "{}: {}", node.op_type, why);
}

Result<void> check_value(const onnx::Node& node, const HostTensor& t) {
  if (!is_float(t.dtype())) return {};
  const double most = t.dtype() == DType::kF16 ? kLargestHalf : kLargest;
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (!(std::fabs(t.get_float(i)) <= most)) return refused(node, "not finite or too large");
  }
  return {};
}

// Whether two ways to compute a value may be told from a wrong result.
Result<void> check_shadow(const onnx::Node& node, const HostTensor& value,
                          const HostTensor& shadow) {
  if (shadow.shape() != value.shape()) return refused(node, "a shape on a border");
  const DType t = value.dtype();
  const double share = t == DType::kBF16 ? 0.25 : t == DType::kF16 ? 0.1 : 0.01;
  const double limit = share * std::fmax(1, is_float(t) ? largest(value) : 0);
  for (std::int64_t i = 0; i < value.size(); ++i) {
    if (!is_float(value.dtype())) {
      if (value.get_int(i) != shadow.get_int(i)) return refused(node, "a value on a border");
    } else if (!(std::fabs(value.get_float(i) - shadow.get_float(i)) <= limit)) {
      return refused(node, "too sensitive");
    }
  }
  return {};
}

// Constants off by different amounts: what divides one by another must not cancel them.
onnx::Model with_other_scales(onnx::Model model, std::size_t shadow) {
  double steps = 4;
  for (onnx::Initializer& v : model.graph.initializers) {
    HostTensor& t = std::get<HostTensor>(v.value);
    if (!is_float(t.dtype())) continue;
    t = shifted(t, steps * unit_roundoff(t.dtype()), shadow, v.name);
    steps += 4;
  }
  return model;
}

void read_body(const onnx::Graph& body, std::set<std::string>* names) {
  std::set<std::string> own;
  for (const onnx::ValueInfo& v : body.inputs) own.insert(v.name);
  for (const onnx::Initializer& v : body.initializers) own.insert(v.name);
  for (const onnx::Node& node : body.nodes) {
    for (const std::string& name : names_read(node)) {
      if (own.count(name) == 0) names->insert(name);
    }
    own.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const onnx::ValueInfo& v : body.outputs) {
    if (own.count(v.name) == 0) names->insert(v.name);
  }
}

}  // namespace

std::set<std::string> names_read(const onnx::Node& node) {
  std::set<std::string> names(node.inputs.begin(), node.inputs.end());
  names.erase("");
  for (const onnx::Attribute& a : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value);
    if (body != nullptr) read_body(**body, &names);
  }
  return names;
}

void Trace::define(const std::string& name, HostTensor value, bool constant) {
  values_[name] = {value, std::vector<HostTensor>(kShadows, value), constant};
}

// The node alone, with the sequences that it reads.
Result<onnx::Model> Trace::model_of(const onnx::Node& node, std::set<std::string>* read) const {
  onnx::Model model;
  model.opsets = opsets_;
  model.graph.name = "one";
  model.graph.nodes = {node};
  std::set<std::string> wanted = names_read(node);
  for (auto it = pending_.rbegin(); it != pending_.rend(); ++it) {
    if (wanted.count(it->outputs[0]) == 0) continue;
    wanted.erase(it->outputs[0]);
    for (const std::string& name : names_read(*it)) wanted.insert(name);
    model.graph.nodes.insert(model.graph.nodes.begin(), *it);
  }
  for (const std::string& name : wanted) {
    if (!has(name)) return refused(node, fmt::format("reads '{}', which has no value", name));
    const Traced& x = at(name);
    if (x.constant) {
      model.graph.initializers.push_back({name, x.value});
    } else {
      model.graph.inputs.push_back(
          onnx::testing::value_info(name, x.value.dtype(), x.value.shape()));
    }
  }
  for (const std::string& name : node.outputs) {
    if (!name.empty()) model.graph.outputs.push_back(onnx::testing::output(name));
  }
  *read = wanted;
  return model;
}

Result<std::vector<HostTensor>> Trace::run(const onnx::Model& model, std::size_t shadow,
                                           const std::set<std::string>& read,
                                           bool perturbed) const {
  onnx::ImportOptions options;
  for (const std::string& name : read) {
    const Traced& x = at(name);
    if (x.constant) continue;
    const HostTensor& t = shadow < kShadows ? x.shadows[shadow] : x.value;
    options.values[name] =
        perturbed && shadow < kShadows ? shifted(t, 4 * unit_roundoff(t.dtype()), shadow, name) : t;
  }
  TESSERA_TRY(
      const graph::Graph graph,
      onnx::import_model(perturbed && shadow < kShadows ? with_other_scales(model, shadow) : model,
                         options));
  std::vector<HostTensor> outputs;
  for (const graph::ValueId id : graph.outputs) {
    const HostTensor* t = graph.constant(id);
    if (t == nullptr) return make_error(ErrorCode::kInvalidArgument, "an output is not computed");
    outputs.push_back(*t);
  }
  return outputs;
}

Result<void> Trace::add(const onnx::Node& node) {
  if (gives_sequence(node)) {
    pending_.push_back(node);
    return {};
  }
  std::set<std::string> read;
  TESSERA_TRY(const onnx::Model model, model_of(node, &read));
  // How far one node may be off; what follows from data is moved, not rounded.
  std::vector<double> off(model.graph.outputs.size(), 0);
  const auto imported = onnx::import_model(model, {});
  if (imported.ok()) {
    const std::vector<Roundings> roundings = graph::roundings(*imported);
    for (std::size_t i = 0; i < off.size(); ++i) off[i] = tolerance(roundings[i]);
  } else if (imported.error().code != ErrorCode::kDataDependent) {
    return refused(node, imported.error().message);
  }
  TESSERA_TRY(const std::vector<HostTensor> values, run(model, kShadows, read, false));
  std::vector<Traced> traced;
  for (std::size_t i = 0; i < values.size(); ++i) {
    TESSERA_DO(check_value(node, values[i]));
    traced.push_back({values[i], {}, false});
  }
  bool exact = !rounds_inside(node);
  for (const std::string& name : read) {
    for (const HostTensor& t : at(name).shadows) {
      exact = exact && (t.data() == at(name).value.data() || t.size() == 0);
    }
  }
  for (std::size_t s = 0; s < kShadows; ++s) {
    std::vector<HostTensor> shadow = values;
    if (!exact) {
      TESSERA_TRY(shadow, run(model, s, read, rounds_inside(node)));
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      TESSERA_DO(check_shadow(node, values[i], shadow[i]));
      traced[i].shadows.push_back(shifted(shadow[i], off[i], s, model.graph.outputs[i].name));
      TESSERA_DO(check_shadow(node, values[i], traced[i].shadows.back()));
    }
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    values_[model.graph.outputs[i].name] = std::move(traced[i]);
  }
  return {};
}

double Trace::spread(const std::string& name, std::int64_t i) const {
  const Traced& x = at(name);
  double most = 0;
  for (const HostTensor& t : x.shadows) {
    most = std::fmax(most, std::fabs(t.get_float(i) - x.value.get_float(i)));
  }
  return most;
}

Result<Trace> trace_case(const Case& c) {
  Trace trace(c.model.opsets);
  for (const onnx::Initializer& v : c.model.graph.initializers) {
    trace.define(v.name, std::get<HostTensor>(v.value), true);
  }
  for (const auto& [name, value] : c.inputs) trace.define(name, value, false);
  for (const onnx::Node& node : c.model.graph.nodes) TESSERA_DO(trace.add(node));
  return trace;
}

}  // namespace tessera::fuzz
