// The kernels of a model with their layouts, as text and as a coloured graph.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/plan/plan.h"
#include "tessera/frontend/task/task.h"

namespace tessera::report {

// A model as one plan decides it.
struct PlanView {
  std::string title;
  const task::PlannedGraph* planned = nullptr;
};

// One line a kernel: its layout, what it moves, its time where a plan knows it, its operators.
std::string layout_table(const PlanView& view, const plan::Plan& times);

// SVG with the graphs side by side. Kernels are coloured by layout; those that only move data say
// what that costs: microseconds where `times` has their task, else bytes.
std::string layout_picture(const std::vector<PlanView>& views, const plan::Plan& times);

}  // namespace tessera::report
