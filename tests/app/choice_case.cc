#include "tests/app/choice_case.h"

#include <set>

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/scheduling/space/kind.h"

namespace tessera::app {
namespace {

// As the definition of the task names them, whatever the models look at.
std::string types_of(const te::Dag& dag) {
  std::set<std::string> types;
  for (const te::Input& input : dag.inputs) types.insert(to_text(input.buffer->dtype));
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& b : op.outputs) types.insert(to_text(b->dtype));
  }
  return fmt::format("{}", fmt::join(types, "+"));
}

}  // namespace

Choice choice_of(const std::string& spec, const target::Target& machine, DType floats,
                 const std::string& language) {
  CompileOptions options;
  options.target = target::code_target(machine, 1);
  options.floats = floats;
  options.cost_model = kShipped;
  options.language = language;
  ModelSource source(spec);
  const auto decided = decide_model(source, options);
  EXPECT_TRUE(decided.ok()) << spec << ": " << (decided.ok() ? "" : decided.error().message);
  Choice out;
  if (!decided.ok()) return out;
  EXPECT_TRUE(decided->judged.has_value()) << spec;
  for (const task::Task& task : decided->tasks.tasks) {
    ++out.tasks;
    const plan::PlanEntry* entry = decided->judged->plan.find(task.key);
    if (entry != nullptr) {
      ++out.changed;
      out.kinds.push_back(space::candidate_kind(task.dag, options.target, 1, entry->candidate));
      out.types.push_back(types_of(task.dag));
    } else if (decided->build.schedule) {
      const auto usual = space::default_schedule(task.dag, options.target);
      const auto built = decided->build.schedule(task);
      EXPECT_TRUE(usual.ok() && built.ok()) << task.name;
      EXPECT_EQ(schedule::to_text(*usual), schedule::to_text(*built)) << task.name;
    }
  }
  EXPECT_EQ(decided->judged->plan.tasks.size(), out.changed);
  return out;
}

}  // namespace tessera::app
