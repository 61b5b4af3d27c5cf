// Facts about GPUs and about the instructions that schedules use. None of them was measured or
// chosen; what was stands beside the estimates, and what differs between machines is in their rows.
#pragma once

#include <cstdint>

namespace tessera::space {

inline constexpr std::int64_t kGpuBanks = 32;      // of shared memory, four bytes wide
inline constexpr std::int64_t kGpuCopyBytes = 16;  // the widest access of a thread
inline constexpr std::int64_t kGpuBlockBytes =
    1024;                                    // of shared memory, that each block takes more
inline constexpr double kGpuSchedulers = 4;  // of a multiprocessor, each with its own warps

// Outputs of the side of a tile of mma instructions, and bytes between rows of operands in shared
// memory: neighbouring rows begin in different banks.
inline constexpr std::int64_t kMmaSide = 16, kMmaPad = 16;
// Of a wgmma instruction: rows, bytes of its operands in shared memory for a row, and threads of a
// warp group.
inline constexpr std::int64_t kWgmmaRows = 64, kWgmmaRowBytes = 128, kWgmmaThreads = 128;

// Outputs that are staged begin each row so many elements after a multiple of the banks.
inline constexpr std::int64_t kGpuStagedPad = kGpuBanks / 4;
// Steps of an operand that is transposed begin so many elements after a multiple of the banks:
// eight steps of four rows, which a warp copies, then lie in different ones.
inline constexpr std::int64_t kGpuTransposedPad = 4,
                              kGpuTransposedSteps = kGpuBanks / kGpuTransposedPad;

}  // namespace tessera::space
