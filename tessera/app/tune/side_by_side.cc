#include "tessera/app/tune/side_by_side.h"

#include <algorithm>
#include <limits>
#include <map>

#include "tessera/backend/kernel/build_kernel.h"

namespace tessera::app {
namespace {

// Of the threads that a core can hold: so many hide each other's waiting.
constexpr double kBusyThreads = 0.5;

}  // namespace

double side_by_side_seconds(const std::vector<RunningKernel>& kernels) {
  std::vector<std::size_t> waiting(kernels.size(), 0), running;
  std::vector<std::vector<std::size_t>> readers(kernels.size());
  std::vector<double> left(kernels.size());
  for (std::size_t k = 0; k < kernels.size(); ++k) {
    left[k] = kernels[k].seconds;
    waiting[k] = kernels[k].after.size();
    for (const std::size_t before : kernels[k].after) readers[before].push_back(k);
    if (waiting[k] == 0) running.push_back(k);
  }
  double now = 0;
  while (!running.empty()) {
    double busy = 0, next = std::numeric_limits<double>::infinity();
    for (const std::size_t k : running) {
      busy += kernels[k].share;
      next = std::min(next, left[k]);
    }
    now += next * std::max(1.0, busy);
    std::vector<std::size_t> still;
    for (const std::size_t k : running) {
      left[k] -= next;
      if (left[k] > 0) {
        still.push_back(k);
        continue;
      }
      for (const std::size_t r : readers[k]) {
        if (--waiting[r] == 0) still.push_back(r);
      }
    }
    running = std::move(still);
  }
  return now;
}

std::vector<std::vector<std::size_t>> calls_before(const task::TaskGraph& tasks) {
  std::vector<std::vector<std::size_t>> out(tasks.calls.size());
  const bool on_host =
      std::any_of(tasks.groups.begin(), tasks.groups.end(),
                  [](const task::Group& g) { return g.kind == task::GroupKind::kHost; });
  std::map<graph::ValueId, std::size_t> writer;  // calls, through reshapes
  for (std::size_t g = 0; g < tasks.groups.size(); ++g) {
    const task::Group& group = tasks.groups[g];
    const std::int32_t call = tasks.call_of_group[g];
    if (call < 0) {
      const auto from = group.inputs.empty() ? writer.end() : writer.find(group.inputs[0]);
      for (const graph::ValueId id : group.outputs) {
        if (from != writer.end()) writer[id] = from->second;
      }
      continue;
    }
    const auto mine = static_cast<std::size_t>(call);
    std::vector<std::size_t>& before = out[mine];
    if (on_host) {
      if (mine > 0) before.push_back(mine - 1);
      continue;
    }
    for (const graph::ValueId id : tasks.calls[mine].params) {
      const auto from = writer.find(id);
      if (from != writer.end()) before.push_back(from->second);
    }
    std::sort(before.begin(), before.end());
    before.erase(std::unique(before.begin(), before.end()), before.end());
    for (const graph::ValueId id : group.outputs) writer[id] = mine;
  }
  return out;
}

double device_share(const te::Dag& dag, const schedule::Schedule& schedule,
                    const target::Target& target) {
  lower::PassOptions passes;
  passes.verify = false;
  const Result<lower::Lowered> lowered = kernel::lower_kernel(dag, schedule, target, passes);
  if (!lowered || lowered->program.launches.empty()) return 1;
  const double room = kBusyThreads * target.cores * std::max(1, target.gpu.core_threads);
  double most = 0;
  for (const ir::Launch& launch : lowered->program.launches) {
    most = std::max(most, static_cast<double>(launch.blocks() * launch.threads()) / room);
  }
  return std::min(1.0, most);
}

}  // namespace tessera::app
