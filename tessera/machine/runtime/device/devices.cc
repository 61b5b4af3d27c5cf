#include "tessera/machine/runtime/device/devices.h"

#include "tessera/machine/runtime/device/cuda_device.h"
#include "tessera/machine/runtime/device/opencl_device.h"

namespace tessera::runtime {

Result<std::unique_ptr<Device>> open_device(target::Kind kind) {
  switch (kind) {
    case target::Kind::kCuda:
      return open_cuda_device();
    case target::Kind::kOpenCl:
      return open_opencl_device();
    case target::Kind::kCpu:
      break;
  }
  return make_error(ErrorCode::kUnsupported, "a CPU runs code in this process");
}

Result<target::Target> resolve_target(std::string_view name) {
  for (const target::Kind kind : {target::Kind::kCuda, target::Kind::kOpenCl}) {
    if (name != target::to_text(kind)) continue;
    const Result<std::unique_ptr<Device>> device = open_device(kind);
    if (!device.ok()) return device.error().with_context(fmt::format("target {}", name));
    return (*device)->target();
  }
  return target::find_target(name);
}

}  // namespace tessera::runtime
