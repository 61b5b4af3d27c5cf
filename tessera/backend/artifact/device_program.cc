#include "tessera/backend/artifact/device_program.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/backend/artifact/places.h"
#include "tessera/backend/exec/step_order.h"

namespace tessera::artifact {

DeviceProgram make_device_program(const ModelProgram& program, const DeviceCode& code,
                                  const Weights& weights) {
  const exec::CompiledModel& model = program.model;
  DeviceProgram out;
  out.capability = model.target.gpu.capability;
  const auto i64 = [](std::size_t n) { return static_cast<std::int64_t>(n); };
  for (const DeviceCode::Module& m : code.modules) {
    out.modules.push_back({i64(m.text), i64(m.text_bytes), i64(m.binary), i64(m.binary_bytes)});
  }
  using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t, std::int64_t>;
  std::map<Key, std::int32_t> numbers;  // of places
  const exec::RunningOrder order = exec::order_of(model.steps);
  std::vector<std::vector<std::int32_t>> last(model.steps.size());  // launch of each step
  for (std::size_t i = 0; i < model.steps.size(); ++i) {
    const exec::CompiledModel::Step& step = model.steps[i];
    for (const std::size_t earlier : order.after()[i])
      last[i].insert(last[i].end(), last[earlier].begin(), last[earlier].end());
    for (const runtime::LaunchInfo& l : program.binaries[step.kernel].launches) {
      out.names.push_back(l.name);
      tsr_launch launch{};
      launch.kernel = out.names.back().c_str();
      launch.module = static_cast<std::int32_t>(step.kernel);
      launch.first_argument = static_cast<std::int32_t>(out.arguments.size());
      launch.num_arguments = static_cast<std::int32_t>(l.arguments.size());
      for (std::size_t d = 0; d < 3; ++d) {
        launch.grid[d] = static_cast<std::uint32_t>(l.grid[d]);
        launch.block[d] = static_cast<std::uint32_t>(l.block[d]);
      }
      launch.shared_bytes = static_cast<std::uint32_t>(l.shared_bytes);
      launch.waits = l.waits ? 1 : 0;
      if (program.branches) {
        launch.first_after = static_cast<std::int32_t>(out.after.size());
        launch.num_after = static_cast<std::int32_t>(last[i].size());
        out.after.insert(out.after.end(), last[i].begin(), last[i].end());
      }
      last[i] = {static_cast<std::int32_t>(out.launches.size())};
      out.launches.push_back(launch);
      out.max_arguments = std::max(out.max_arguments, launch.num_arguments);
      for (const int a : l.arguments) {
        const tsr_place place = place_of(step.params[static_cast<std::size_t>(a)], model, weights);
        const auto [it, added] =
            numbers.try_emplace({place.kind, place.index, place.offset, place.bytes},
                                static_cast<std::int32_t>(out.places.size()));
        if (added) out.places.push_back(place);
        out.arguments.push_back(it->second);
      }
    }
  }
  return out;
}

}  // namespace tessera::artifact
