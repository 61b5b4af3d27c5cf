// Compiled kernels as a back end of codegen returns them and a device loads them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::runtime {

enum class BinaryKind : std::uint8_t {
  kObject,   // relocatable ELF
  kPtx,      // text of NVIDIA's virtual machine, assembled by the driver
  kCubin,    // the same, assembled for the target's generation alone
  kOpenClC,  // source, compiled by the driver
};

// What a caller must provide to run a kernel.
struct KernelInfo {
  std::string name;               // entry symbol
  std::int64_t shared_bytes = 0;  // workspace used once per call
  std::int64_t worker_bytes = 0;  // workspace used per worker of the host
};

// How one kernel of a GPU program is started. The kernel takes pointers alone: `arguments` are
// numbers of the program's parameters, and beyond them of its temporaries.
struct LaunchInfo {
  std::string name;
  std::array<std::int64_t, 3> grid = {1, 1, 1}, block = {1, 1, 1};
  std::int64_t shared_bytes = 0;  // beside what the kernel declares itself
  std::vector<int> arguments;
  // It waits itself for the kernel before it to end, so that it may be started while that runs.
  bool waits = false;
};

struct Binary {
  BinaryKind kind = BinaryKind::kObject;
  target::Target target;            // what it was made for
  std::vector<std::uint8_t> bytes;  // text has no terminating zero
  std::vector<KernelInfo> kernels;  // of objects
  // Of GPU programs: in the order in which they run, and the bytes of each temporary.
  std::vector<LaunchInfo> launches;
  std::vector<std::int64_t> temporaries;
  int parameters = 0;
};

}  // namespace tessera::runtime
