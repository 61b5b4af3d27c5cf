// What a machine can do at best.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::report {

struct CacheLevel {
  std::string name;  // "L1", ..., "memory"
  double bytes = 0;  // that it holds for all threads together
  double gbytes_s = 0;
};

struct Ceilings {
  std::map<std::string, double> gflops;  // by type of the operands: "f32", "i8", ...
  std::vector<CacheLevel> levels;        // smallest first; the last holds everything
  std::string source;                    // where the rates come from, in a few words
};

// Of a GPU, by its datasheet; nothing of CPUs, or where the target does not tell.
std::optional<Ceilings> datasheet_ceilings(const target::Target& target);

// The rate of operations on operands of the type, in 1e9 a second; 0: not known. Bytes without sign
// are multiplied by the instructions that the rate "i8" is of.
double peak_gflops(const Ceilings& ceilings, const std::string& dtype);

// Seconds in which no schedule can do so many operations on so many bytes: the longer of the two,
// the bytes at the rate of the smallest level that holds them (`cold`: of the last). 0: not known.
double least_time_s(const Ceilings& ceilings, const std::string& dtype, double flops, double bytes,
                    bool cold);

}  // namespace tessera::report
