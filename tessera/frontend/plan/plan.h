// A plan: all decisions about a model and the schedules of its tasks, frozen. Building with it
// needs no search, no database and gives the same bytes again.
#pragma once

#include <map>
#include <string>

#include "tessera/frontend/plan/point.h"
#include "tessera/support/result.h"

namespace tessera::plan {

struct PlanEntry {
  std::string name;       // of the task, for people
  std::string schedule;   // text
  std::string candidate;  // where it came from; may be empty
  double seconds = 0;     // as measured; 0: never
  bool earlier = false;   // measured by an earlier session alone, not when the plan was made
};

struct Plan {
  std::string model, target;  // what it was made for: target::to_text
  int threads = 1;
  Decisions decisions;
  std::map<std::string, PlanEntry> tasks;  // by key

  const PlanEntry* find(const std::string& key) const;
};

// JSON, sorted, stable: equal plans give equal bytes.
std::string to_json(const Plan& plan);
Result<Plan> plan_from_json(const std::string& text);
Result<Plan> load_plan(const std::string& path);
Result<void> save_plan(const Plan& plan, const std::string& path);  // whole or not at all

}  // namespace tessera::plan
