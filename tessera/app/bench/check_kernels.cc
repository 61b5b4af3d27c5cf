#include "tessera/app/bench/check_kernels.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/frontend/graph/roundings.h"
#include "tessera/machine/target/fast_math.h"

namespace tessera::app {
namespace {

// A network has hundreds of kernels: those that are small are compared whole, of the others so many
// points.
constexpr double kSmallFlops = 5e5;
constexpr std::int64_t kKernelSamples = 128;
constexpr std::uint64_t kKernelSeed = 1;

graph::TensorType type_of(const ir::Buffer& b) { return {b->dtype, b->shape}; }

// What a kernel reads; constants as the graph has them, not as they are packed.
Result<std::vector<HostTensor>> read_by(const graph::Graph& graph, const task::Call& call,
                                        const te::Dag& dag, const exec::ModelRunner& runner,
                                        std::size_t step) {
  std::vector<HostTensor> out;
  for (std::size_t i = 0; i < call.params.size(); ++i) {
    const HostTensor* constant = graph.constant(call.params[i]);
    if (constant != nullptr) {
      out.push_back(*constant);
      continue;
    }
    TESSERA_TRY(HostTensor read, runner.parameter(step, i, type_of(dag.inputs[i].buffer)));
    out.push_back(std::move(read));
  }
  return out;
}

bool all_nan(const kernel::Reference& want, const HostTensor& got) {
  return kernel::is_all_nan(want) &&
         std::all_of(want.points.begin(), want.points.end(),
                     [&](std::int64_t i) { return std::isnan(got.get_float(i)); });
}

// The largest error of its outputs: of what is allowed.
Result<double> error_of_kernel(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                               const exec::CompiledModel& model, exec::ModelRunner& runner,
                               std::size_t step) {
  const Products products = target::products_of(model.target);
  double worst = 0;
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    if (dag.outputs[o].size() == 0) continue;
    TESSERA_TRY(const HostTensor got,
                runner.parameter(step, model.steps[step].reads + o, type_of(dag.outputs[o])));
    TESSERA_TRY(const kernel::Reference want,
                kernel::reference(dag, inputs, o, kKernelSamples, kKernelSeed, kSmallFlops));
    if (all_nan(want, got)) continue;  // proves nothing, and is said of the outputs
    worst = std::max(worst, kernel::worst_error(want, got, kernel::tolerance(dag, o, products)));
  }
  return worst;
}

}  // namespace

bool is_narrow(const graph::Graph& graph) {
  constexpr std::array kNarrow = {DType::kF16,    DType::kBF16, DType::kF8E4M3,
                                  DType::kF8E5M2, DType::kI8,   DType::kI16};
  const std::vector<Roundings> rounded = graph::roundings(graph);
  return std::any_of(rounded.begin(), rounded.end(), [&](const Roundings& r) {
    return std::any_of(kNarrow.begin(), kNarrow.end(), [&](DType t) { return r.count(t) > 0; });
  });
}

Result<KernelsCheck> check_kernels(const graph::Graph& graph, const task::TaskGraph& tasks,
                                   const exec::CompiledModel& model, exec::ModelRunner& runner,
                                   std::set<std::string>* agreed) {
  KernelsCheck out;
  std::size_t step = 0;
  for (std::size_t g = 0; g < tasks.groups.size(); ++g) {
    const task::GroupKind kind = tasks.groups[g].kind;
    if (kind == task::GroupKind::kHost) TESSERA_DO(runner.run_step(step++));
    if (kind != task::GroupKind::kKernel) continue;
    const task::Call& call = tasks.calls[static_cast<std::size_t>(tasks.call_of_group[g])];
    const task::Task& task = tasks.tasks[call.task];
    if (agreed != nullptr && agreed->contains(task.key)) {
      TESSERA_DO(runner.run_step(step++));
      continue;
    }
    TESSERA_TRY(const std::vector<HostTensor> inputs, read_by(graph, call, task.dag, runner, step));
    TESSERA_DO(runner.run_step(step));
    TESSERA_TRY(const double error, error_of_kernel(task.dag, inputs, model, runner, step));
    if (error > out.worst) {
      out.worst = error;
      out.worst_node = model.steps[step].origin;
    }
    if (error <= 1 && agreed != nullptr) agreed->insert(task.key);
    ++out.kernels;
    ++step;
  }
  return out;
}

}  // namespace tessera::app
