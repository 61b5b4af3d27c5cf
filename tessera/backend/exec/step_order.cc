#include "tessera/backend/exec/step_order.h"

#include <algorithm>

namespace tessera::exec {

RunningOrder order_of(const std::vector<CompiledModel::Step>& steps) {
  constexpr std::size_t kHost = 0, kArena = 1, kCallers = 2;  // inputs and outputs in turn
  std::vector<std::vector<Touch>> touches;
  for (const CompiledModel::Step& step : steps) {
    touches.push_back({{kHost, 0, 1, step.kind == task::GroupKind::kHost}});
    for (std::size_t i = 0; i < step.params.size(); ++i) {
      const Storage& s = step.params[i];
      const bool writes = i >= step.reads;
      if (s.place == Place::kArena)
        touches.back().push_back({kArena, s.offset, s.offset + s.bytes, writes});
      if (s.place == Place::kInput || s.place == Place::kOutput) {
        const std::size_t memory = kCallers + 2 * s.index + (s.place == Place::kOutput ? 1 : 0);
        touches.back().push_back({memory, 0, 1, writes});
      }
    }
  }
  return RunningOrder(touches);
}

std::size_t widest_join(const RunningOrder& order) {
  std::size_t most = 0;
  for (const auto& steps : order.after()) most = std::max(most, steps.size());
  return most;
}

}  // namespace tessera::exec
