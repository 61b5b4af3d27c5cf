// A device behind OpenCL 1.2.
#pragma once

#include "tessera/machine/runtime/device/device.h"

namespace tessera::runtime {

// The first GPU of any platform, or else the first device. kUnavailable where there is none.
Result<std::unique_ptr<Device>> open_opencl_device();

}  // namespace tessera::runtime
