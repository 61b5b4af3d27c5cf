// Programs that a GPU is measured by, in the text of the IR: each has a loop whose length says how
// often every multiprocessor does one thing.
#pragma once

#include <cstdint>
#include <string>

#include "tessera/machine/target/target.h"

namespace tessera::app {

std::string tiny_kernel();  // one warp that copies a number for each thread
// Blocks that fill the shared memory of a multiprocessor: each loads, meets and stores once.
std::string waves_of_blocks(const target::Target& target, std::int64_t blocks);
std::string barriers(const target::Target& target, std::int64_t steps);
// One thread: A[A[A[...]]] in an array of i32.
std::string chase(std::int64_t elements, std::int64_t steps);

inline constexpr std::int64_t kBusyWarps = 32, kSums = 16, kUnrolledSums = 4;
// A step is kUnrolledSums multiply-adds for each of `sums` of every thread.
std::string multiply_adds(const target::Target& target, std::int64_t warps, std::int64_t sums,
                          std::int64_t steps);

// Multiply-adds of a step, by warps and by two warp groups: one waits while the other multiplies.
inline constexpr double kWarpProducts = 8.0 * 8 * 16 * 8 * 16, kGroupProducts = 2 * 64.0 * 256 * 64;
std::string warp_products(const target::Target& target, std::int64_t steps);
std::string group_products(const target::Target& target, std::int64_t steps);

inline constexpr double kSharedBytes = 8.0 * 16 * 32 * kBusyWarps;  // of a step
std::string shared_reads(const target::Target& target, std::int64_t steps);

// A step is a walk through about `bytes`, by one multiprocessor or by all of them together; these
// take another part in every step. walked_bytes says how many they are.
enum class Walkers : std::uint8_t { kOne, kAll };
double walked_bytes(const target::Target& target, Walkers walkers, std::int64_t bytes);
std::string reads(const target::Target& target, Walkers walkers, std::int64_t bytes,
                  std::int64_t steps);
std::string writes(const target::Target& target, std::int64_t bytes, std::int64_t steps);

}  // namespace tessera::app
