#include "tessera/backend/exec/compile_model.h"

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::exec {
namespace {

graph::Graph two_sums() {
  graph::GraphBuilder b("sums");
  graph::ValueId x = b.input("x", {DType::kF32, {4, 6}});
  for (const std::int64_t axis : {1, 0})
    x = b.add("reduce", {x},
              {{"kind", std::string("sum")},
               {"axes", std::vector<std::int64_t>{axis}},
               {"keepdims", std::int64_t{0}}})
            .value();
  return b.finish({x}, {"y"});
}

// A pass that breaks the rules of the IR is found on a building thread: the one who asked reports
// it, and the process goes on.
TEST(CompileModel, ABugOnABuildingThreadReachesTheCaller) {
  ModelOptions options;
  options.build_threads = 2;
  options.schedule = [](const task::Task&) -> Result<schedule::Schedule> {
    throw_internal_error(__FILE__, __LINE__, "ok", "a pass broke the IR");
  };
  EXPECT_THROW((void)compile_model(two_sums(), target::host(), options), InternalError);
}

TEST(CompileModel, ASteplessScheduleIsTakenAndAWrongOneNamed) {
  ModelOptions options;
  options.schedule = [](const task::Task&) { return schedule::schedule_from_text(""); };
  EXPECT_TRUE(compile_model(two_sums(), target::host(), options).ok());
  options.schedule = [](const task::Task&) {
    return schedule::schedule_from_text("split nothing i 4\n");
  };
  const auto model = compile_model(two_sums(), target::host(), options);
  ASSERT_FALSE(model.ok());
  EXPECT_EQ(model.error().message.find("task "), 0u) << model.error().message;
}

}  // namespace
}  // namespace tessera::exec
