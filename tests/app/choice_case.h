// What learned models change in a model that is compiled.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/compile/decide_model.h"

namespace tessera::app {

struct Choice {
  std::size_t tasks = 0, changed = 0;
  std::vector<std::string> kinds;  // of the schedules that were chosen (space::candidate_kind)
  std::vector<std::string> types;  // of the elements of the tasks that changed: "f32+i8"
};

// `tessera compile SPEC --cost-model shipped` for one thread of the machine; `floats` as --dtype.
// Also checks that a task that did not change has the schedule that it has without the models.
Choice choice_of(const std::string& spec, const target::Target& machine, DType floats = DType::kF32,
                 const std::string& language = kNoModel);

}  // namespace tessera::app
