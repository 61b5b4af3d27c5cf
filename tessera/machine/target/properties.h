// What a machine is, as numbers: the one list that columns of features read. A new architecture has
// other values, not other columns.
#pragma once

#include <cstdint>

#include "tessera/machine/target/target.h"

namespace tessera::target {

enum class Property : std::uint8_t {
  kMemoryOperands,  // instructions of a CPU read an operand from memory and broadcast it
  kLaneOperands,    // ... or take one lane of a vector
  kAssembledAhead,  // of devices: code comes as assembly
  kDriverCompiles,  // ... or as source code
  kLaunches,
  kThreads,  // of code
  kCores,
  kVectorBytes,
  kVectorRegisters,
  kL1Bytes,
  kL2Bytes,
  kL3Bytes,
  kLineBytes,
  kFma,
  kF16,
  kBf16Dot,
  kBf16Mma,
  kI8Dot,
  kI8Mma,
  kCapability,
  kWarp,  // 0 of CPUs, as what follows
  kBlockThreads,
  kCoreThreads,
  kCoreRegisters,
  kBlockSharedBytes,
  kCoreSharedBytes,
  kCoreLanes,
  kClockMhz,
  kBandwidthGbS,
};

double value_of(Property property, const Target& t);  // of abilities 0 or 1

}  // namespace tessera::target
