#include "tessera/backend/kernel/random_inputs.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/builder.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/cpu_device.h"

namespace tessera::kernel {
namespace {

// The operation, and a function of its result.
te::Dag followed_by(const char* spec, ir::Intrinsic fn) {
  te::Dag dag = te::make_dag(te::parse_op_spec(spec).value()).value();
  const ir::Buffer y = dag.outputs[0];
  te::Indices index;
  te::Op op{.name = "after"};
  for (std::size_t d = 0; d < y->shape.size(); ++d) {
    op.axes.push_back({ir::Var::make(fmt::format("z{}", d)), y->shape[d]});
    index.push_back(op.axes.back().var);
  }
  op.values = {ir::Call::make(fn, {te::at(y, index)})};
  op.outputs = {ir::Buffer::make("after", y->dtype, y->shape)};
  dag.outputs = op.outputs;
  dag.ops.push_back(std::move(op));
  return dag;
}

// As in zoo:lenet: of a convolution whose transformed constants are random, the sums are large.
constexpr const char* kTransformed = "conv2d:N=1,H=14,W=14,CI=6,CO=16,KH=5,KW=5,P=0,algo=winograd4";

TEST(RandomInputs, KeepTanhAndErfFromSaturation) {
  for (const ir::Intrinsic fn : {ir::Intrinsic::kTanh, ir::Intrinsic::kErf}) {
    const te::Dag dag = followed_by(kTransformed, fn);
    const auto outputs = interp::run(dag, random_inputs(dag, 1));
    ASSERT_TRUE(outputs.ok()) << outputs.error().message;
    std::int64_t between = 0;
    for (std::int64_t i = 0; i < (*outputs)[0].size(); ++i) {
      const double v = std::abs((*outputs)[0].get_float(i));
      between += v > 1e-3 && v < 0.999 ? 1 : 0;
    }
    EXPECT_GT(between, (*outputs)[0].size() / 2);
  }
}

TEST(RandomInputs, OfOtherFunctionsAreWhatTheyWere) {
  const te::Dag plain = te::make_dag(te::parse_op_spec(kTransformed).value()).value();
  const te::Dag abs = followed_by(kTransformed, ir::Intrinsic::kAbs);
  const auto a = random_inputs(plain, 3), b = random_inputs(abs, 3);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (std::int64_t e = 0; e < a[i].size(); ++e) ASSERT_EQ(a[i].get_float(e), b[i].get_float(e));
  }
}

// What made every trial of such a task fail: the code and the interpreter round the large sums
// differently.
TEST(RandomInputs, LetTheCodeOfATransformedConvolutionAgreeWithTheInterpreter) {
  const te::Dag dag = followed_by(kTransformed, ir::Intrinsic::kTanh);
  const std::vector<HostTensor> inputs = random_inputs(dag, 1);
  const auto op = compile_op(dag, "", target::host());
  ASSERT_TRUE(op.ok()) << op.error().message;
  runtime::ThreadPool pool({.threads = 1});
  runtime::CpuDevice device(pool);
  OpRunner runner(*op, device);
  for (std::size_t i = 0; i < inputs.size(); ++i) ASSERT_TRUE(runner.set_input(i, inputs[i]).ok());
  ASSERT_TRUE(runner.run().ok());
  const auto got = runner.output(0);
  ASSERT_TRUE(got.ok());
  const auto want = reference(dag, inputs, 0, 128, 1);
  ASSERT_TRUE(want.ok());
  EXPECT_LE(worst_error(*want, *got, tolerance(dag, 0)), 1);
}

}  // namespace
}  // namespace tessera::kernel
