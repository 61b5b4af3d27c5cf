#include "tests/space/space_case.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/rng.h"
#include "tests/fuzz/check_case.h"
#include "tests/testing/testing.h"

namespace tessera::space {
namespace {

HostTensor random_tensor(const ir::Buffer& buffer, Rng& rng) {
  HostTensor t(buffer->dtype, buffer->shape);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    if (is_float(t.dtype())) {
      t.set_float(i, 2 * rng.uniform() - 1);
    } else {
      const bool small = size_bytes(t.dtype()) == 1;
      t.set_int(i, small ? rng.between(t.dtype() == DType::kI8 ? -9 : 0, 9) : rng.below(2));
    }
  }
  return t;
}

}  // namespace

double allowed_error(const te::Dag& dag) {
  double out = 0;
  std::int64_t length = 1;
  for (const te::Op& op : dag.ops) {
    std::int64_t n = 1;
    for (const te::Axis& a : op.reduce_axes) n *= std::max<std::int64_t>(1, a.extent);
    length = std::max(length, n);
  }
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& b : op.outputs)
      out = std::max(out, testing::tolerance(b->dtype, length));
  }
  return out;
}

void expect_correct(const te::Dag& dag, const target::Target& target, bool compile, double slack) {
  const auto schedule = default_schedule(dag, target);
  ASSERT_TRUE(schedule.ok()) << schedule.error().message << "\n" << te::to_text(dag);
  fuzz::RandomDag checked{.dag = dag, .inputs = {}, .tolerance = slack * allowed_error(dag)};
  Rng rng(11);
  for (const te::Input& in : dag.inputs) checked.inputs.push_back(random_tensor(in.buffer, rng));
  EXPECT_EQ(fuzz::check_case(checked, *schedule, {.compile = compile}), "")
      << te::to_text(dag) << schedule::to_text(*schedule);
}

std::string schedule_text(const te::Dag& dag, const target::Target& target) {
  const auto schedule = default_schedule(dag, target);
  EXPECT_TRUE(schedule.ok()) << schedule.error().message;
  return schedule.ok() ? schedule::to_text(*schedule) : "";
}

te::Dag dag_of(const std::string& spec) {
  return te::make_dag(te::parse_op_spec(spec).value()).value();
}

}  // namespace tessera::space
