// The devices of this machine by the names that users give.
#pragma once

#include <string_view>

#include "tessera/machine/runtime/device/device.h"

namespace tessera::runtime {

// "cuda" or "opencl": the device at hand. kUnavailable with the reason where there is none.
Result<std::unique_ptr<Device>> open_device(target::Kind kind);

// What a user may name as a target: the device at hand, "host" or a machine of the table.
Result<target::Target> resolve_target(std::string_view name);

}  // namespace tessera::runtime
