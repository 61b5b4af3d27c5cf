// What a model takes whose branches run side by side on a device, by the times of its kernels.
#pragma once

#include <cstddef>
#include <vector>

#include "tessera/frontend/task/task.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::app {

struct RunningKernel {
  double seconds = 0;              // alone
  double share = 1;                // of the device that it keeps busy alone, at most 1
  std::vector<std::size_t> after;  // kernels before it that it waits for
};

// Every kernel starts when those it waits for have ended. As long as the shares of those that run
// add up to more than the device, all of them run that much slower. Between the longest way and the
// sum of all times.
double side_by_side_seconds(const std::vector<RunningKernel>& kernels);

// By call, the calls whose results it reads. A model with operators of the host runs as a chain.
std::vector<std::vector<std::size_t>> calls_before(const task::TaskGraph& tasks);

// Of a GPU that a kernel with that schedule keeps busy; 1 where it cannot be lowered.
double device_share(const te::Dag& dag, const schedule::Schedule& schedule,
                    const target::Target& target);

}  // namespace tessera::app
