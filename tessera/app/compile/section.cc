#include "tessera/app/compile/section.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <string_view>

#include "tessera/app/compile/section_step.h"
#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {
namespace {

// A graph with less work is done before its first kernel would be built.
constexpr double kWorthAPart = 2e7;
// Integers up to this many are sizes: what they decide about is then known.
constexpr std::int64_t kFewIntegers = 1024;
// Sections in a row after which the rest runs node by node: each costs an import.
constexpr int kMostSections = 16;
// Forms of one section that are kept.
constexpr std::size_t kMostForms = 8;

bool few_integers(const HostTensor& t) { return !is_float(t.dtype()) && t.size() <= kFewIntegers; }

bool equal(const HostTensor& a, const HostTensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         (a.bytes() == 0 || std::memcmp(a.data(), b.data(), a.bytes()) == 0);
}

bool is_control(const onnx::Node& node) {
  return node.domain.empty() &&
         (node.op_type == "If" || node.op_type == "Loop" || node.op_type == "Scan");
}

// Operators of which inputs behind the first say how large the outputs are; and all that reduce.
constexpr std::array<std::string_view, 19> kSized = {
    "AffineGrid", "CenterCropPad", "Col2Im",  "CumSum", "DFT",      "Expand", "MaxUnpool",
    "OneHot",     "Pad",           "Reshape", "Resize", "STFT",     "Slice",  "Split",
    "Squeeze",    "Tile",          "TopK",    "Trilu",  "Unsqueeze"};

// Inputs of a node whose values say how large its outputs are.
std::vector<std::string> size_inputs(const onnx::Node& node) {
  if (!node.domain.empty()) return {};
  if (node.op_type == "Range" || node.op_type == "ConstantOfShape") return node.inputs;
  if (node.inputs.empty()) return {};
  const bool sized = std::ranges::find(kSized, node.op_type) != kSized.end();
  if (!sized && !node.op_type.starts_with("Reduce")) return {};
  return {node.inputs.begin() + 1, node.inputs.end()};
}

}  // namespace

// What was made for inputs of these types and values.
struct Section::Form {
  std::vector<graph::TensorType> types;
  std::vector<std::pair<std::size_t, HostTensor>> values;
  Tensors slots;  // what a run begins with: constants
  std::vector<std::size_t> outputs;

  // The known part: of some inputs, to slots in a row behind those of the inputs.
  std::vector<std::size_t> reads;
  std::size_t results = 0;
  graph::Graph graph;
  task::TaskGraph tasks;
  double work = 0;
  std::int64_t runs = 0;
  exec::CompiledModel compiled;
  std::optional<exec::ModelRunner> runner;
  Tensors given;  // what the runner's inputs hold

  std::vector<std::unique_ptr<SectionStep>> steps;

  bool fits(const Tensors& inputs) const {
    for (std::size_t i = 0; i < types.size(); ++i) {
      if (types[i].dtype != inputs[i].dtype() || types[i].shape != inputs[i].shape()) return false;
    }
    return std::all_of(values.begin(), values.end(),
                       [&](const auto& v) { return equal(inputs[v.first], v.second); });
  }
};

Section::Section(onnx::Model part, SectionContext& context, SectionPlace place)
    : part_(std::move(part)), context_(context), place_(std::move(place)) {}
Section::~Section() = default;
Section::Section(Section&&) noexcept = default;

Result<Section::Form*> Section::find_form(const Tensors& inputs) {
  const auto found = std::find_if(forms_.begin(), forms_.end(),
                                  [&](const auto& form) { return form->fits(inputs); });
  if (found != forms_.end()) {
    std::rotate(forms_.begin(), found, found + 1);
    return forms_.front().get();
  }
  TESSERA_TRY(std::unique_ptr<Form> form, make_form(inputs));
  if (forms_.size() == kMostForms) forms_.pop_back();
  forms_.insert(forms_.begin(), std::move(form));
  return forms_.front().get();
}

namespace {

// The steps of a form: its slots are known so far.
class StepMaker {
 public:
  StepMaker(const onnx::SplitModel& split, const onnx::Graph& part, SectionContext& context,
            const SectionPlace& place, Slots& slots)
      : split_(split), scope_{context, place, slots, split.constants, wanted_} {
    for (const onnx::ValueInfo& output : part.outputs) outputs_.insert(output.name);
    wanted_ = outputs_;
    for (const onnx::Node& node : split.later) collect_names(node, wanted_);
  }

  std::vector<std::unique_ptr<SectionStep>> make() {
    std::vector<onnx::Node> others;
    for (const onnx::Node& node : split_.ready) {
      std::unique_ptr<SectionStep> step =
          is_control(node) ? make_control_step(scope_, node) : nullptr;
      if (step) {
        step->instead = make_nodes_step(scope_, {node}, wanted_);
        steps_.push_back(std::move(step));
      } else {
        others.push_back(node);
      }
    }
    add_others(std::move(others));
    return std::move(steps_);
  }

 private:
  void add_others(std::vector<onnx::Node> others) {
    std::vector<onnx::Node> rest = others;
    rest.insert(rest.end(), split_.later.begin(), split_.later.end());
    if (rest.empty()) return;
    if (scope_.place.depth + 1 >= kMostSections) {
      steps_.push_back(make_nodes_step(scope_, std::move(rest), outputs_));
      return;
    }
    std::set<std::string> decides = sizes(others);
    if (!decides.empty() || others.empty()) {
      steps_.push_back(make_rest_step(scope_, std::move(rest), outputs_, std::move(decides)));
      return;
    }
    std::unique_ptr<SectionStep> nodes = make_nodes_step(scope_, std::move(others), wanted_);
    // A sequence, for one, cannot leave its step: then nothing is cut any more.
    nodes->instead = make_nodes_step(scope_, std::move(rest), outputs_);
    nodes->ends = true;
    steps_.push_back(std::move(nodes));
    if (!split_.later.empty()) steps_.push_back(make_rest_step(scope_, split_.later, outputs_, {}));
  }

  // Values that this section does not know yet, if the nodes that are ready wait for any. Then
  // sizes that later nodes wait for are taken along.
  std::set<std::string> sizes(const std::vector<onnx::Node>& others) const {
    std::set<std::string> now, all;
    const auto collect = [&](const std::vector<onnx::Node>& nodes, std::set<std::string>* to) {
      for (const onnx::Node& node : nodes) {
        for (const std::string& name : size_inputs(node)) {
          if (scope_.slots.find(name)) to->insert(name);
        }
      }
    };
    collect(others, &now);
    all = now;
    collect(split_.later, &all);
    const std::set<std::string>& known = scope_.place.decides;
    const bool more = std::any_of(now.begin(), now.end(),
                                  [&](const std::string& name) { return !known.contains(name); });
    return more ? all : std::set<std::string>();
  }

  const onnx::SplitModel& split_;
  std::set<std::string> outputs_, wanted_;  // of the section, of what follows
  const StepScope scope_;
  std::vector<std::unique_ptr<SectionStep>> steps_;
};

}  // namespace

Result<std::unique_ptr<Section::Form>> Section::make_form(const Tensors& inputs) {
  auto form = std::make_unique<Form>();
  onnx::ImportOptions import = section_import(context_);
  import.unrolled_nodes = context_.options.import.unrolled_nodes;
  Slots slots;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = part_.graph.inputs[i].name;
    part_.graph.inputs[i] = info_of(name, inputs[i]);
    form->types.push_back({inputs[i].dtype(), inputs[i].shape()});
    slots.add(name);
    if (!place_.decides.contains(name) || !few_integers(inputs[i])) continue;
    import.values[name] = inputs[i];
    form->values.emplace_back(i, inputs[i].clone());
  }
  TESSERA_TRY(onnx::SplitModel split, onnx::split_model(part_, import));
  for (const graph::ValueId id : split.known.inputs)
    form->reads.push_back(*slots.find(split.known.value(id).name));
  form->results = split.known.output_names.size();
  for (const std::string& name : split.known.output_names) slots.add(name);
  std::vector<std::pair<std::size_t, HostTensor>> constants;
  for (const onnx::Initializer& i : split.constants) {
    const auto* tensor = std::get_if<HostTensor>(&i.value);
    if (tensor != nullptr) constants.emplace_back(slots.add(i.name), *tensor);
  }
  form->steps = StepMaker(split, part_.graph, context_, place_, slots).make();
  for (const onnx::ValueInfo& output : part_.graph.outputs) {
    const std::optional<std::size_t> slot = slots.find(output.name);
    if (!slot) {
      return make_error(ErrorCode::kInvalidArgument, "output '{}' is computed by no node",
                        output.name);
    }
    form->outputs.push_back(*slot);
  }
  form->slots.resize(slots.count());
  for (const auto& [slot, tensor] : constants) form->slots[slot] = tensor;
  form->graph = std::move(split.known);
  if (form->graph.nodes.empty() || form->results == 0) return form;
  TESSERA_TRY(task::PlannedGraph planned, plan_graph(std::move(form->graph), context_.options));
  form->graph = std::move(planned.graph);
  form->tasks = std::move(planned.tasks);
  for (const task::Task& t : form->tasks.tasks) form->work += t.flops * t.weight;
  return form;
}

Result<void> Section::compile(Form& form) {
  TESSERA_TRY(form.compiled, exec::compile_model(form.graph, form.tasks, context_.options.target,
                                                 build_options(context_.options)));
  context_.compiled_kernels += static_cast<std::int64_t>(form.compiled.kernels.size());
  form.runner.emplace(form.compiled, context_.device);
  form.given.resize(form.compiled.input_types.size());
  form.graph = {};
  form.tasks = {};
  return {};
}

Result<void> Section::prepare(const std::vector<graph::TensorType>& types) {
  Tensors inputs;
  for (const graph::TensorType& type : types) {
    const Result<std::int64_t> count = checked_elements(type.shape, type.dtype);
    if (!count) return count.error();
    inputs.emplace_back(type.dtype, type.shape);
  }
  TESSERA_TRY(Form * form, find_form(inputs));
  if (form->runner || form->graph.nodes.empty() || form->results == 0) return {};
  return compile(*form);
}

Result<Tensors> Section::run_known(Form& form, const Tensors& inputs) {
  ++form.runs;
  if (form.results == 0) return Tensors();
  if (!form.runner) {
    const bool nothing = form.graph.nodes.empty();
    // With that many forms, inputs are of other types at every run: none runs often.
    const bool at_once = place_.at_once && forms_.size() < kMostForms;
    const bool small = !at_once && form.runs <= context_.runs_before_compiling &&
                       form.work * static_cast<double>(form.runs) < kWorthAPart;
    if (nothing || small) {
      Tensors given;
      for (const std::size_t slot : form.reads) given.push_back(inputs[slot]);
      // What the evaluator cannot do by itself (it knows no constants) is left to the compiler.
      Result<Tensors> outputs = evaluate_nodes(form.graph, context_.evaluator, given);
      if (outputs.ok() || nothing) return outputs;
    }
    TESSERA_DO(compile(form));
  }
  for (std::size_t i = 0; i < form.reads.size(); ++i) {
    const HostTensor& input = inputs[form.reads[i]];
    // What a body reads at every step of a loop stays where it is: nobody writes to it meanwhile.
    if (!place_.counted && form.given[i].data() == input.data() && input.bytes() > 0) continue;
    TESSERA_DO(form.runner->set_input(i, input));
    if (!place_.counted) form.given[i] = input;
  }
  TESSERA_DO(form.runner->run());
  Tensors outputs;
  outputs.reserve(form.results);
  for (std::size_t i = 0; i < form.results; ++i) outputs.push_back(form.runner->output(i));
  return outputs;
}

Result<Tensors> Section::run(const Tensors& inputs) {
  TESSERA_TRY(Form * form, find_form(inputs));
  TESSERA_TRY(Tensors known, run_known(*form, inputs));
  Tensors slots = form->slots;
  std::copy(inputs.begin(), inputs.end(), slots.begin());
  std::move(known.begin(), known.end(), slots.begin() + static_cast<std::ptrdiff_t>(inputs.size()));
  const auto gather = [&](const std::vector<std::size_t>& from) {
    Tensors out;
    out.reserve(from.size());
    for (const std::size_t slot : from)
      out.push_back(slot == kOmitted ? HostTensor() : slots[slot]);
    return out;
  };
  for (const auto& planned : form->steps) {
    SectionStep* step = planned.get();
    TESSERA_TRY(std::optional<Tensors> results, step->run(gather(step->reads)));
    const bool ends = !results && step->ends;
    if (!results && step->instead) {
      step = step->instead.get();
      TESSERA_TRY(results, step->run(gather(step->reads)));
    }
    if (!results) return make_error(ErrorCode::kUnsupported, "only tensors can leave a section");
    if (place_.counted) context_.host_nodes += step->nodes;
    for (std::size_t i = 0; i < step->writes.size(); ++i) {
      if (step->writes[i] != kOmitted) slots[step->writes[i]] = std::move((*results)[i]);
    }
    if (ends) break;
  }
  return gather(form->outputs);
}

void collect_names(const onnx::Node& node, std::set<std::string>& names) {
  for (const std::string& name : node.inputs) {
    if (!name.empty()) names.insert(name);
  }
  for (const onnx::Attribute& a : node.attributes) {
    const auto* body = std::get_if<std::shared_ptr<const onnx::Graph>>(&a.value);
    if (body == nullptr) continue;
    for (const onnx::Node& inner : (*body)->nodes) collect_names(inner, names);
    for (const onnx::ValueInfo& output : (*body)->outputs) names.insert(output.name);
  }
}

}  // namespace tessera::app
