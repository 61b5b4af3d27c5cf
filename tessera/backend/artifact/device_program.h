// What an artifact for GPUs does, as its C runtime reads it.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "tessera/backend/artifact/device_code.h"
#include "tessera/backend/artifact/model_program.h"
#include "tessera/backend/artifact/runtime/program.h"
#include "tessera/backend/artifact/weights.h"

namespace tessera::artifact {

// Tables of tsr_device_program.
struct DeviceProgram {
  std::vector<tsr_module> modules;
  std::vector<tsr_launch> launches;  // in the order in which they run
  std::vector<std::int32_t> arguments;
  std::vector<tsr_place> places;    // what several launches use has one
  std::vector<std::int32_t> after;  // launches, by launch; empty: each comes after all before it
  std::int32_t max_arguments = 0, capability = 0;
  std::deque<std::string> names;  // of the kernels
};

DeviceProgram make_device_program(const ModelProgram& program, const DeviceCode& code,
                                  const Weights& weights);

}  // namespace tessera::artifact
