#include "tessera/machine/runtime/device/devices.h"

#include <algorithm>
#include <array>

#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/device/cuda_device.h"
#include "tessera/machine/runtime/device/opencl_device.h"
#include "tessera/machine/target/machine_row.h"

namespace tessera::runtime {
namespace {

struct Row {
  target::Kind kind;
  Result<std::unique_ptr<Device>> (*open)(const PoolOptions& pool);
};

constexpr std::array kRows = {
    Row{target::Kind::kCpu,
        [](const PoolOptions& pool) -> Result<std::unique_ptr<Device>> {
          return std::unique_ptr<Device>(std::make_unique<CpuDevice>(pool));
        }},
    Row{target::Kind::kCuda, [](const PoolOptions&) { return open_cuda_device(); }},
    Row{target::Kind::kOpenCl, [](const PoolOptions&) { return open_opencl_device(); }},
};

}  // namespace

Result<std::unique_ptr<Device>> open_device(target::Kind kind, const PoolOptions& pool) {
  return std::ranges::find(kRows, kind, &Row::kind)->open(pool);
}

Result<std::unique_ptr<Device>> open_device(std::string_view kind, const PoolOptions& pool) {
  for (const Row& row : kRows) {
    if (kind == target::to_text(row.kind)) return row.open(pool);
  }
  return make_error(ErrorCode::kInvalidArgument, "no device '{}'", kind);
}

Result<target::Target> resolve_target(std::string_view name) {
  for (const Row& row : kRows) {
    if (row.kind == target::Kind::kCpu || name != target::to_text(row.kind)) continue;
    const Result<std::unique_ptr<Device>> device = row.open({});
    if (!device.ok()) return device.error().with_context(fmt::format("target {}", name));
    return target::with_user_rates((*device)->target(), name);
  }
  if (name == target::host().name) return target::with_user_rates(target::host(), name);
  if (!target::names_row(name)) return target::find_target(name);
  TESSERA_TRY(const target::MachineRow row, target::find_row(name));
  return row.target;
}

}  // namespace tessera::runtime
