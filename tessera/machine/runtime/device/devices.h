// The devices of this machine by the names that users give.
#pragma once

#include <string_view>

#include "tessera/machine/runtime/device/device.h"
#include "tessera/machine/runtime/thread_pool.h"

namespace tessera::runtime {

// The device at hand of that kind; a CPU is this process, with a pool of its own. kUnavailable with
// the reason where there is none.
Result<std::unique_ptr<Device>> open_device(target::Kind kind, const PoolOptions& pool = {});
// By the name of its kind. kInvalidArgument: there is no such kind.
Result<std::unique_ptr<Device>> open_device(std::string_view kind, const PoolOptions& pool = {});

// What a user may name as a target: the device at hand, "host", a machine of the table, a row of
// this user or the path of one.
Result<target::Target> resolve_target(std::string_view name);

}  // namespace tessera::runtime
