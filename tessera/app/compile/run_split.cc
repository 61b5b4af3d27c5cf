#include "tessera/app/compile/run_split.h"

#include <algorithm>
#include <functional>
#include <set>

#include "tessera/app/compile/run_loop.h"
#include "tessera/backend/exec/model_runner.h"

namespace tessera::app {
namespace {

using Values = std::map<std::string, HostTensor>;

// A part with less work is done before its first kernel would be built.
constexpr double kWorthAPart = 2e7;
// Integers up to this many are sizes and indices: what they decide about is then known.
constexpr std::int64_t kFewIntegers = 1024;
// Parts after which the rest runs node by node: each costs an import.
constexpr int kMostParts = 16;

onnx::ValueInfo info_of(const std::string& name, const HostTensor& tensor) {
  onnx::ValueInfo info{name, std::string(to_text(tensor.dtype())), true, {}};
  for (const std::int64_t d : tensor.shape()) info.dims.push_back({d, ""});
  return info;
}

class SplitRunner {
 public:
  SplitRunner(const onnx::Model& model, const Values& inputs, NodeEvaluator& evaluator,
              runtime::Device& device, const CompileOptions& options)
      : whole_(model), values_(inputs), evaluator_(evaluator), device_(device), options_(options) {
    import_.builder = options.import.builder;
    if (!import_.builder.evaluate) import_.builder.evaluate = std::ref(evaluator_);
    import_.max_nodes = options.import.max_nodes;
    import_.max_loop_steps = options.import.max_loop_steps;
    import_.override_declared = true;
  }

  Result<SplitRun> run() {
    out_.model_nodes = static_cast<std::int64_t>(whole_.graph.nodes.size());
    onnx::Model part = whole_;
    for (int i = 0; !part.graph.nodes.empty() || i == 0; ++i) {
      TESSERA_TRY(onnx::SplitModel split, onnx::split_model(part, options_of(part, i == 0)));
      TESSERA_DO(run_known(split));
      std::vector<onnx::Node> rest = split.ready;
      rest.insert(rest.end(), split.later.begin(), split.later.end());
      if (rest.empty()) break;
      if (i + 1 == kMostParts) return finish(rest, split.constants);
      const auto count = static_cast<std::int64_t>(split.ready.size());
      TESSERA_DO(run_loops(split));
      const Result<void> ran = run_nodes(split.ready, split.later, split.constants);
      // A sequence, for one, cannot leave its part: then nothing is cut any more.
      if (!ran.ok() && ran.error().code == ErrorCode::kUnsupported) {
        rest = split.ready;  // without the loops that ran
        rest.insert(rest.end(), split.later.begin(), split.later.end());
        return finish(rest, split.constants);
      }
      TESSERA_DO(ran);
      out_.host_nodes += count;
      part = make_part(split.later, {}, split.constants);
    }
    return collect();
  }

 private:
  // The inputs of a part: in the first one they vary from run to run, so that nothing is folded.
  onnx::ImportOptions options_of(const onnx::Model& part, bool first) const {
    onnx::ImportOptions import = import_;
    import.unrolled_nodes = options_.import.unrolled_nodes;
    for (const onnx::ValueInfo& info : part.graph.inputs) {
      const auto value = values_.find(info.name);
      if (value == values_.end()) continue;
      const HostTensor& t = value->second;
      const bool fixed = options_.import.values.contains(info.name) ||
                         options_.import.literals.contains(info.name);
      const bool few = !is_float(t.dtype()) && t.size() <= kFewIntegers;
      if (first ? fixed : few) {
        import.values[info.name] = t;
      } else {
        import.shapes[info.name] = t.shape();
      }
    }
    return import;
  }

  // `nodes` as a model: its inputs are the values that it reads, its outputs what `readers` and the
  // whole model want of it.
  onnx::Model make_part(const std::vector<onnx::Node>& nodes,
                        const std::vector<onnx::Node>& readers,
                        const std::vector<onnx::Initializer>& constants) const {
    onnx::Model part;
    part.ir_version = whole_.ir_version;
    part.opsets = whole_.opsets;
    part.functions = whole_.functions;
    part.graph.name = whole_.graph.name;
    part.graph.nodes = nodes;
    std::set<std::string> read, wanted, constant;
    for (const onnx::Node& node : nodes) collect_names(node, read);
    for (const onnx::Node& node : readers) collect_names(node, wanted);
    for (const onnx::ValueInfo& output : whole_.graph.outputs) wanted.insert(output.name);
    for (const onnx::Initializer& i : constants) {
      if (read.contains(i.name)) part.graph.initializers.push_back(i);
      constant.insert(i.name);
    }
    for (const std::string& name : read) {
      const auto value = values_.find(name);
      if (value == values_.end() || constant.contains(name)) continue;
      part.graph.inputs.push_back(info_of(name, value->second));
    }
    for (const onnx::Node& node : nodes) {
      for (const std::string& name : node.outputs) {
        if (!name.empty() && wanted.contains(name)) {
          part.graph.outputs.push_back({name, "undefined", false, {}});
        }
      }
    }
    return part;
  }

  // Leaves the outputs of the known part among the values.
  Result<void> run_known(onnx::SplitModel& split) {
    graph::Graph& graph = split.known;
    const std::vector<std::string> names = graph.output_names;
    if (names.empty()) return {};
    double work = 0;
    task::TaskGraph tasks;
    if (!graph.nodes.empty()) {
      TESSERA_TRY(task::PlannedGraph planned, plan_graph(std::move(graph), options_));
      graph = std::move(planned.graph);
      tasks = std::move(planned.tasks);
      for (const task::Task& t : tasks.tasks) work += t.flops * t.weight;
    }
    std::vector<HostTensor> inputs;
    for (const graph::ValueId id : graph.inputs) {
      inputs.push_back(values_.at(graph.value(id).name));
    }
    // What the evaluator cannot do by itself (it knows no constants) is left to the compiler.
    Result<std::vector<HostTensor>> small = make_error(ErrorCode::kUnsupported, "too large");
    if (work < kWorthAPart) small = evaluate_nodes(graph, evaluator_, inputs);
    TESSERA_TRY(std::vector<HostTensor> outputs,
                small.ok() ? std::move(small) : compile_and_run(graph, tasks, inputs));
    for (std::size_t i = 0; i < names.size(); ++i) values_[names[i]] = std::move(outputs[i]);
    return {};
  }

  Result<std::vector<HostTensor>> compile_and_run(const graph::Graph& graph,
                                                  const task::TaskGraph& tasks,
                                                  const std::vector<HostTensor>& inputs) {
    TESSERA_TRY(const exec::CompiledModel compiled,
                exec::compile_model(graph, tasks, options_.target, build_options(options_)));
    out_.compiled_kernels += static_cast<std::int64_t>(compiled.kernels.size());
    return exec::run_model(compiled, device_, inputs);
  }

  // Runs the loops among the nodes that are ready, whose bodies are compiled, and takes them away.
  Result<void> run_loops(onnx::SplitModel& split) {
    std::vector<onnx::Node> others;
    for (const onnx::Node& node : split.ready) {
      TESSERA_TRY(std::optional<LoopRun> ran, run_loop(node, {whole_, values_, split.constants,
                                                              evaluator_, device_, options_}));
      if (!ran) {
        others.push_back(node);
        continue;
      }
      out_.compiled_kernels += ran->compiled_kernels;
      for (std::size_t i = 0; i < std::min(node.outputs.size(), ran->outputs.size()); ++i) {
        if (!node.outputs[i].empty()) values_[node.outputs[i]] = std::move(ran->outputs[i]);
      }
    }
    split.ready = std::move(others);
    return {};
  }

  // Computes `nodes` on the host; `readers` come after them.
  Result<void> run_nodes(const std::vector<onnx::Node>& nodes,
                         const std::vector<onnx::Node>& readers,
                         const std::vector<onnx::Initializer>& constants) {
    const onnx::Model part = make_part(nodes, readers, constants);
    Values inputs;
    for (const onnx::ValueInfo& info : part.graph.inputs) {
      inputs[info.name] = values_.at(info.name);
    }
    TESSERA_TRY(const std::vector<HostTensor> outputs,
                run_eager(part, inputs, evaluator_, import_));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      values_[part.graph.outputs[i].name] = outputs[i];
    }
    return {};
  }

  Result<SplitRun> finish(const std::vector<onnx::Node>& rest,
                          const std::vector<onnx::Initializer>& constants) {
    out_.host_nodes += static_cast<std::int64_t>(rest.size());
    TESSERA_DO(run_nodes(rest, {}, constants));
    return collect();
  }

  Result<SplitRun> collect() {
    for (const onnx::ValueInfo& output : whole_.graph.outputs) {
      const auto value = values_.find(output.name);
      if (value == values_.end()) {
        return make_error(ErrorCode::kInvalidArgument, "output '{}' is computed by no node",
                          output.name);
      }
      out_.outputs.push_back(value->second);
    }
    return std::move(out_);
  }

  const onnx::Model& whole_;
  Values values_;
  NodeEvaluator& evaluator_;
  runtime::Device& device_;
  const CompileOptions& options_;
  onnx::ImportOptions import_;  // without inputs: these are per part
  SplitRun out_;
};

}  // namespace

Result<SplitRun> run_split(const onnx::Model& model, const Values& inputs, NodeEvaluator& evaluator,
                           runtime::Device& device, const CompileOptions& options) {
  return SplitRunner(model, inputs, evaluator, device, options).run();
}

}  // namespace tessera::app
