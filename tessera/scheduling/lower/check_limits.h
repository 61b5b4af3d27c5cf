// Whether a device can run a program at all, before code is made for it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tessera/lang/ir/launch.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::lower {

// Of one block, unless said otherwise. The defaults hold on every NVIDIA GPU since 2014.
struct LaunchLimits {
  std::int64_t threads = 1024;
  std::array<std::int64_t, 3> block{1024, 1024, 64};
  std::array<std::int64_t, 3> grid{2147483647, 65535, 65535};
  std::int64_t shared_bytes = 48 * 1024;
  std::int64_t registers = 65536;  // 4 bytes each
  std::int64_t thread_registers = 255;
  target::Target device;  // whose tensor cores compute products; without any by default
};

// What a GPU says of itself; the defaults where it says nothing.
LaunchLimits launch_limits(const target::Target& target);

std::int64_t shared_bytes(const ir::Launch& launch);

// Registers of a thread, roughly: what is allocated on the stack at the same time, and a constant
// for addresses and operands. Memory that is indexed by a variable lies outside registers, but is
// counted all the same: it is as bad.
std::int64_t estimate_registers(const ir::Launch& launch);

// kIllegalSchedule names the launch, what it needs and the limit.
Result<void> check_limits(const ir::DeviceProgram& program, const LaunchLimits& limits);

}  // namespace tessera::lower
