// Where the time of a model's kernels goes.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/app/report/ceilings.h"

namespace tessera::app {

// What is known of a kernel that ran in its model.
struct StepFacts {
  double us = 0;
  std::string dtype;  // of its operands
  double flops = 0;
  double far_bytes = 0;  // that no L2 cache held
  // Of its time: threads without work, in loops that others finish and beside loops; and what a
  // second call at once does not take.
  double waiting_share = 0, cold_share = 0;
};

// Microseconds, whose sum is that of the kernel. What overlaps counts once, for the first of them.
struct Breakdown {
  double arithmetic_us = 0;  // its operations at the peak of the machine
  double waiting_us = 0;     // barriers and imbalance
  double memory_us = 0;      // its far bytes at the bandwidth of where they are
  double cold_us = 0;        // code, and data of other cores, that had to come first
  double rest_us = 0;        // instructions beside the arithmetic, vectors that are not full

  struct Part {
    std::string_view name;
    double Breakdown::*us;
  };
  static const std::array<Part, 5>& parts();
  double us() const;
  std::string_view limit() const;  // the name of the largest part
};

// Of the bytes of a kernel those that no L2 cache holds: constants, where a run of the model goes
// through more than `l2_bytes`, and the others, where these alone are more.
double far_bytes(double constants, double others, double l2_bytes, double model_bytes);

// `model_bytes`: of all that a run of the model touches, which tells where far bytes are.
Breakdown break_down(const StepFacts& step, const report::Ceilings& ceilings, double model_bytes);

Breakdown sum_of(const std::vector<Breakdown>& steps);

// "of 8.1 ms: arithmetic 61 %, memory 22 %, ...", the largest part first; without those of less
// than half a percent.
std::string to_text(const Breakdown& sum);

}  // namespace tessera::app
