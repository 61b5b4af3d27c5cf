#include "thread_case.h"

#include <cstring>

#include <gtest/gtest.h>

#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/visitor.h"
#include "tessera/scheduling/lower/lower.h"
#include "tests/testing/testing.h"

namespace tessera::lower {
namespace {

class DropBarrier final : public ir::Mutator {
 public:
  explicit DropBarrier(int which) : left_(which) {}

 private:
  using ir::Mutator::rewrite;
  ir::Stmt rewrite(const ir::Stmt& s, const ir::Barrier&) override {
    return left_-- == 0 ? ir::Stmt() : s;
  }
  int left_;
};

ir::DeviceProgram without_barrier(ir::DeviceProgram program, int which) {
  for (ir::Launch& l : program.launches) {
    const int here = count_barriers({.name = "", .params = {}, .temporaries = {}, .launches = {l}});
    if (which >= 0 && which < here) l.body = DropBarrier(which)(l.body);
    which -= here;
  }
  return program;
}

}  // namespace

int count_barriers(const ir::DeviceProgram& program) {
  int n = 0;
  for (const ir::Launch& l : program.launches)
    ir::for_each_stmt(l.body, [&](const ir::Stmt& s) { n += s.as<ir::Barrier>() ? 1 : 0; });
  return n;
}

std::string run_threads(const te::Dag& dag, const ir::DeviceProgram& program,
                        const std::vector<HostTensor>& inputs, double tolerance,
                        const std::vector<schedule::Layout>& layouts) {
  const auto want = interp::run(dag, inputs);
  if (!want.ok()) return want.error().message;
  std::vector<HostTensor> params;
  for (std::size_t i = 0; i < program.params.size(); ++i) {
    HostTensor flat(program.params[i]->dtype, program.params[i]->shape);
    if (i < inputs.size()) {
      const bool packs = i < layouts.size() && !layouts[i].empty();
      const HostTensor stored = packs ? pack(inputs[i], layouts[i]) : inputs[i];
      std::memcpy(flat.data(), stored.data(), flat.bytes());
    }
    params.push_back(flat);
  }
  if (const auto ran = interp::run(program, params); !ran.ok()) return ran.error().message;
  for (std::size_t o = 0; o < want->size(); ++o) {
    HostTensor got((*want)[o].dtype(), (*want)[o].shape());
    std::memcpy(got.data(), params[inputs.size() + o].data(), got.bytes());
    const std::string difference =
        testing::mismatch(got, (*want)[o], is_float(got.dtype()) ? tolerance : 0);
    if (!difference.empty()) return difference;
  }
  return "";
}

std::string run_threads(const te::Dag& dag, const ir::DeviceProgram& program,
                        const std::vector<schedule::Layout>& layouts) {
  Rng rng(7);
  std::vector<HostTensor> inputs;
  for (const te::Input& in : dag.inputs)
    inputs.push_back(random_tensor(in.buffer->dtype, in.buffer->shape, rng));
  double tolerance = 0;
  for (const te::Op& op : dag.ops) {
    std::int64_t length = 1;
    for (const te::Axis& a : op.reduce_axes) length *= a.extent;
    for (const ir::Buffer& b : op.outputs) tolerance += 4 * testing::tolerance(b->dtype, length);
  }
  return run_threads(dag, program, inputs, tolerance, layouts);
}

ir::DeviceProgram lower_threads(const te::Dag& dag, const std::string& schedule,
                                const PassOptions& options) {
  const auto steps = schedule::schedule_from_text(schedule);
  if (!steps.ok()) {
    ADD_FAILURE() << steps.error().message;
    return {};
  }
  const auto lowered = lower_device(dag, *steps, options);
  if (!lowered.ok()) {
    ADD_FAILURE() << lowered.error().message << "\n" << schedule;
    return {};
  }
  return lowered->program;
}

void expect_threads_agree(const te::Dag& dag, const std::string& schedule) {
  const ir::DeviceProgram program = lower_threads(dag, schedule);
  if (program.launches.empty()) return;
  const std::string text = ir::to_text(program);
  const auto parsed = ir::parse_device_program(text);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message << "\n" << text;
  EXPECT_TRUE(ir::equal(*parsed, program)) << text;
  EXPECT_EQ(run_threads(dag, program), "") << schedule << text;
  for (int b = 0; b < count_barriers(program); ++b) {
    EXPECT_NE(run_threads(dag, without_barrier(program, b)).find("race"), std::string::npos)
        << "barrier " << b << " is not needed\n"
        << schedule << text;
  }
}

void expect_threads_refused(const te::Dag& dag, const std::string& schedule,
                            const std::string& part) {
  const auto steps = schedule::schedule_from_text(schedule);
  ASSERT_TRUE(steps.ok()) << steps.error().message;
  const auto lowered = lower_device(dag, *steps);
  ASSERT_FALSE(lowered.ok()) << "not refused: " << schedule;
  EXPECT_EQ(lowered.error().code, ErrorCode::kIllegalSchedule);
  EXPECT_NE(lowered.error().message.find(part), std::string::npos) << lowered.error().message;
}

}  // namespace tessera::lower
