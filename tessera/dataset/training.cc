#include "tessera/dataset/training.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "tessera/support/npz.h"

namespace tessera::dataset {

std::vector<float> labels_of(std::span<const Timed> examples) {
  std::map<std::pair<std::int32_t, std::int32_t>, float> best;
  for (const Timed& e : examples) {
    if (!(e.seconds > 0)) continue;
    const auto at = best.emplace(std::pair(e.task, e.machine), e.seconds).first;
    at->second = std::min(at->second, e.seconds);
  }
  std::vector<float> out;
  for (const Timed& e : examples) {
    out.push_back(e.seconds > 0 ? best.at({e.task, e.machine}) / e.seconds : 0.f);
  }
  return out;
}

void keep_machine(const Dataset& data, const std::string& text, bool tested_too, Split* split) {
  for (std::size_t i = 0; i < split->part.size(); ++i) {
    const auto machine = static_cast<std::size_t>(data.examples[i].machine);
    if (data.machines[machine].target.find(text) != std::string::npos) continue;
    if (tested_too || split->part[i] != kTest) split->part[i] = kLeftOut;
  }
}

std::map<std::string, std::string> data_notes(const Dataset& data, const Split& split) {
  std::set<std::string> targets;
  for (std::size_t i = 0; i < split.part.size(); ++i) {
    if (split.part[i] != kTrain) continue;
    const auto& machine = data.machines[static_cast<std::size_t>(data.examples[i].machine)];
    targets.insert(fmt::format("{} threads={}", machine.target, machine.threads));
  }
  return {{"dataset", digest(data)}, {"targets", fmt::format("{}", fmt::join(targets, "; "))}};
}

Result<void> write_columns(const std::string& path, const Columns& columns) {
  NamedTensors tensors;
  for (const auto& [name, values] : columns) {
    HostTensor tensor(DType::kF32, {static_cast<std::int64_t>(values->size())});
    std::copy(values->begin(), values->end(), tensor.as<float>());
    tensors.push_back({name, std::move(tensor)});
  }
  return write_npz(path, tensors);
}

}  // namespace tessera::dataset
