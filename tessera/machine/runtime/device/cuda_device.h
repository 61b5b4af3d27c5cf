// A GPU behind the CUDA driver.
#pragma once

#include "tessera/machine/runtime/device/device.h"

namespace tessera::runtime {

// kUnavailable, with the reason, where there is no driver or no such device.
Result<std::unique_ptr<Device>> open_cuda_device(int ordinal = 0);

}  // namespace tessera::runtime
