#include "tessera/scheduling/lower/code_size.h"

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::lower {
namespace {

double size_of(const std::string& steps) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("eltwise:N=4096,fn=relu").value()).value();
  const auto schedule = schedule::schedule_from_text(steps);
  EXPECT_TRUE(schedule.ok());
  const auto lowered = lower(dag, *schedule, target::find_target("h200").value());
  EXPECT_TRUE(lowered.ok()) << lowered.error().message;
  return code_size(lowered->program);
}

TEST(CodeSize, CountsTheCopiesOfUnrolledLoops) {
  const std::string bound =
      "split Y i 1024\nsplit Y i.1 8\nannotate Y i.0 blockIdx.x\nannotate Y i.1.0 threadIdx.x\n";
  const double once = size_of(bound);
  EXPECT_GE(once, 2) << "a load and a store";
  EXPECT_EQ(size_of(bound + "annotate Y i.1.1 unroll\n"), 8 * once);
}

}  // namespace
}  // namespace tessera::lower
