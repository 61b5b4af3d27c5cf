#include "schedule_case.h"

#include <gtest/gtest.h>

#include "tessera/lang/ir/text.h"
#include "tessera/lang/te/op_spec.h"
#include "tests/testing/testing.h"

namespace tessera::lower {
namespace {

fuzz::RandomDag with_inputs(const te::Dag& dag, std::int64_t index_limit) {
  fuzz::RandomDag out{.dag = dag, .inputs = {}, .tolerance = 0};
  Rng rng(7);
  for (const te::Input& in : dag.inputs) {
    out.inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
    if (in.buffer->name != "idx") continue;
    for (std::int64_t i = 0; i < out.inputs.back().size(); ++i)
      out.inputs.back().set_int(i, rng.below(index_limit));
  }
  for (const te::Op& op : dag.ops) {
    std::int64_t length = 1;
    for (const te::Axis& a : op.reduce_axes) length *= a.extent;
    for (const ir::Buffer& b : op.outputs)
      out.tolerance += 4 * testing::tolerance(b->dtype, length);
  }
  return out;
}

}  // namespace

void expect_agrees(const te::Dag& dag, const std::string& schedule, std::int64_t index_limit,
                   const fuzz::CheckOptions& options) {
  const auto steps = schedule::schedule_from_text(schedule);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  const auto lowered = lower(dag, *steps, *options.target);
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  EXPECT_EQ(fuzz::check_case(with_inputs(dag, index_limit), *steps, options), "")
      << te::to_text(dag) << schedule << ir::to_text(lowered->func);
}

ir::Func lower_to(const te::Dag& dag, const std::string& schedule, const std::string& pass) {
  const auto steps = schedule::schedule_from_text(schedule);
  if (!steps.ok()) {
    ADD_FAILURE() << steps.error().message;
    return {};
  }
  const auto lowered = lower(dag, *steps, target::find_target("neoverse-v1").value(),
                             {.print_after = {}, .stop_after = pass, .skip = {}});
  if (!lowered.ok()) {
    ADD_FAILURE() << lowered.error().message;
    return {};
  }
  return lowered->func;
}

void expect_refused(const te::Dag& dag, const std::string& schedule, const std::string& part) {
  const auto steps = schedule::schedule_from_text(schedule);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  const auto lowered = lower(dag, *steps, target::host());
  ASSERT_FALSE(lowered.ok()) << "not refused: " << schedule;
  EXPECT_EQ(lowered.error().code, ErrorCode::kIllegalSchedule);
  EXPECT_NE(lowered.error().message.find(part), std::string::npos) << lowered.error().message;
}

te::Dag dag_of(const char* spec) { return te::make_dag(te::parse_op_spec(spec).value()).value(); }

}  // namespace tessera::lower
