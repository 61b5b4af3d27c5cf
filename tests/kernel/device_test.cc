// Whole operations with GPU schedules on the devices of this machine, against the interpreter.
#include <fstream>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/kernel/check_output.h"
#include "tessera/kernel/compile_op.h"
#include "tessera/runtime/device/devices.h"
#include "tessera/te/op_spec.h"
#include "tests/testing/testing.h"

namespace tessera::kernel {
namespace {

using target::Kind;

std::string schedule_file(const std::string& name) {
  std::ifstream in(TESSERA_ROOT "/docs/examples/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class OnDevice : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<runtime::Device>> device = runtime::open_device(GetParam());
    if (!device.ok()) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
  }

  void expect_computes(const std::string& spec, const std::string& schedule) {
    const te::Dag dag = te::make_dag(te::parse_op_spec(spec).value()).value();
    const auto op = compile_op(dag, schedule, device_->target(), {.device = device_.get()});
    ASSERT_TRUE(op.ok()) << spec << ": " << op.error().message;
    OpRunner runner(*op, *device_);
    const std::vector<HostTensor> inputs = random_inputs(dag, 1);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      ASSERT_TRUE(runner.set_input(i, inputs[i]).ok());
    const auto ran = runner.run();
    ASSERT_TRUE(ran.ok()) << ran.error().message;
    for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
      const Reference want = reference(dag, inputs, o, 500, 3).value();
      const auto got = runner.output(o);
      ASSERT_TRUE(got.ok()) << got.error().message;
      EXPECT_LE(worst_error(want, *got, tolerance(dag, o)), 1) << spec;
    }
    EXPECT_TRUE(runner.time(2).ok());
  }

  std::unique_ptr<runtime::Device> device_;
};

TEST_P(OnDevice, Matmul) {
  expect_computes("matmul:M=64,N=128,K=32", schedule_file("gpu-matmul.txt"));
  expect_computes("matmul:M=61,N=75,K=29", schedule_file("gpu-matmul.txt"));
}

TEST_P(OnDevice, Softmax) {
  expect_computes("softmax:R=16,C=128", schedule_file("gpu-softmax.txt"));
  expect_computes("softmax:R=5,C=33", schedule_file("gpu-softmax.txt"));
}

TEST_P(OnDevice, ConvolutionWithSharedStaging) {
  expect_computes("conv2d:N=1,H=14,W=14,CI=8,CO=16,KH=3,KW=3,S=1,P=1",
                  schedule_file("gpu-conv2d.txt"));
}

TEST_P(OnDevice, RefusesLoopsWithoutThreads) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=4,N=4,K=4").value()).value();
  const auto op = compile_op(dag, "", device_->target(), {.device = device_.get()});
  ASSERT_FALSE(op.ok());
  EXPECT_EQ(op.error().code, ErrorCode::kIllegalSchedule);
}

INSTANTIATE_TEST_SUITE_P(Gpu, OnDevice, ::testing::Values(Kind::kCuda, Kind::kOpenCl),
                         [](const auto& kind) { return std::string(target::to_text(kind.param)); });

}  // namespace
}  // namespace tessera::kernel
