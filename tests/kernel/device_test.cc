// Whole operations with GPU schedules on the devices of this machine, against the interpreter.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/matrix_instructions.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tests/testing/devices.h"
#include "tests/testing/testing.h"

namespace tessera::kernel {
namespace {

using target::Kind;

std::string schedule_file(const std::string& name) {
  std::ifstream in(TESSERA_ROOT "/docs/reference/examples/" + name);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class OnDevice : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<runtime::Device>> device = runtime::open_device(GetParam());
    if (!testing::has_device(to_text(GetParam()), device)) GTEST_SKIP() << device.error().message;
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

TEST_P(OnDevice, CodeIsKeptAndFoundAgain) {
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("tessera-device-code-{}", getpid());
  std::filesystem::remove_all(folder);
  const auto cache = std::make_shared<const KernelCache>(DiskCache(folder.string(), 1 << 20));
  const te::Dag dag = te::make_dag(te::parse_op_spec("eltwise:N=100,fn=relu").value()).value();
  const CompileOptions options{.build = {}, .cache = cache, .device = device_.get()};
  for (const bool again : {false, true}) {
    const auto op = compile_op(dag, std::nullopt, device_->target(), options);
    ASSERT_TRUE(op.ok()) << op.error().message;
    EXPECT_EQ(op->times.empty(), again);
    OpRunner runner(*op, *device_);
    const std::vector<HostTensor> inputs = random_inputs(dag, 1);
    ASSERT_TRUE(runner.set_input(0, inputs[0]).ok());
    ASSERT_TRUE(runner.run().ok());
    EXPECT_LE(worst_error(reference(dag, inputs, 0, 500, 3).value(), runner.output(0).value(),
                          tolerance(dag, 0)),
              1);
  }
  std::filesystem::remove_all(folder);
}

TEST_P(OnDevice, Matmul) {
  expect_computes("matmul:M=64,N=128,K=32", schedule_file("gpu-matmul.txt"));
  expect_computes("matmul:M=61,N=75,K=29", schedule_file("gpu-matmul.txt"));
}

TEST_P(OnDevice, TensorCores) {
  const std::string schedule = schedule_file("gpu-mma.txt");
  const bool has =
      target::find_matrix(device_->target(), "mma16x16x16", DType::kBF16, DType::kBF16);
  if (!has) GTEST_SKIP() << "the device has no tensor cores for products of 16 x 8 x 16";
  for (const char* type : {"f16", "bf16"}) {
    expect_computes(fmt::format("matmul:M=128,N=192,K=96,dtype={}", type), schedule);
    expect_computes(fmt::format("matmul:M=61,N=75,K=45,TA=1,TB=1,dtype={}", type), schedule);
  }
}

TEST_P(OnDevice, WarpGroups) {
  if (device_->target().gpu.capability != 90) GTEST_SKIP() << "only sm_90a has wgmma";
  const std::string schedule = schedule_file("gpu-wgmma.txt");
  for (const char* type : {"f16", "bf16"}) {
    expect_computes(fmt::format("matmul:M=256,N=512,K=512,dtype={}", type), schedule);
    expect_computes(fmt::format("matmul:M=200,N=264,K=136,dtype={}", type), schedule);
  }
}

TEST_P(OnDevice, WarpGroupsOfBytes) {
  if (device_->target().gpu.capability != 90) GTEST_SKIP() << "only sm_90a has wgmma";
  std::string schedule = "cache_write C local\n" + schedule_file("gpu-wgmma.txt");
  const std::pair<const char*, const char*> changes[] = {
      {" C\\b(?! local)", " C.local"}, {"\\bout\\b", "C"},  {" k 64", " k 128"},
      {"i.1 wgmma", "i.1 wgmma_i8"},   {"128 8", "128 16"}, {"layout B.*\n", ""}};
  for (const auto& [from, to] : changes)
    schedule = std::regex_replace(schedule, std::regex(from), to);
  for (const char* type : {"i8", "u8"}) {
    expect_computes(fmt::format("matmul:M=256,N=512,K=512,TB=1,dtype={}", type), schedule);
    expect_computes(fmt::format("matmul:M=200,N=264,K=272,TB=1,dtype={}", type), schedule);
  }
}

TEST_P(OnDevice, Softmax) {
  expect_computes("softmax:R=16,C=128", schedule_file("gpu-softmax.txt"));
  expect_computes("softmax:R=5,C=33", schedule_file("gpu-softmax.txt"));
}

TEST_P(OnDevice, ConvolutionWithSharedStaging) {
  expect_computes("conv2d:N=1,H=14,W=14,CI=8,CO=16,KH=3,KW=3,S=1,P=1",
                  schedule_file("gpu-conv2d.txt"));
}

// Two programs in parts of one piece of memory, temporaries included, prepared once.
TEST_P(OnDevice, ARecordingRunsItsCallsInOrder) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("softmax:R=16,C=128").value()).value();
  // Every stage is a launch, and all but the last one write temporaries.
  std::string steps;
  for (const char* stage : {"mx", "ex", "sm", "inv", "Y"})
    steps += fmt::format("annotate {} r blockIdx.x\n", stage);
  const auto lowered = lower::lower_device(dag, schedule::schedule_from_text(steps).value());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  const runtime::Binary binary = codegen::compile(lowered->program, device_->target()).value();
  EXPECT_EQ(binary.temporaries.size(), 4u);
  const auto code = device_->load(binary);
  ASSERT_TRUE(code.ok()) << code.error().message;
  const std::size_t bytes = 16 * 128 * 4;
  const std::size_t pieces = 3 + binary.temporaries.size();
  const auto memory = runtime::DeviceBuffer::make(*device_, pieces * bytes);
  ASSERT_TRUE(memory.ok());
  std::vector<void*> parts;
  for (std::size_t i = 0; i < pieces; ++i) {
    const auto part = device_->part(memory->get(), i * bytes, bytes);
    ASSERT_TRUE(part.ok()) << part.error().message;
    parts.push_back(*part);
  }
  runtime::Call first{code->get(), {parts[0], parts[1]}}, second{code->get(), {parts[1], parts[2]}};
  for (std::size_t i = 3; i < pieces; ++i) first.memory.push_back(parts[i]);
  // The second has its own temporaries; where the device can, its input is fetched.
  const auto recording =
      device_->record({first, second}, {.fetched = {{}, {parts[1], bytes}}, .after = {}});
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  for (const std::uint64_t seed : {1u, 2u}) {
    const std::vector<HostTensor> inputs = random_inputs(dag, seed);
    ASSERT_TRUE(device_->upload(parts[0], inputs[0].data(), bytes).ok());
    ASSERT_TRUE(device_->replay(**recording).ok());
    const std::vector<HostTensor> once = interp::run(dag, inputs).value();
    const std::vector<HostTensor> want = interp::run(dag, once).value();
    HostTensor got(DType::kF32, {16, 128});
    ASSERT_TRUE(device_->download(got.data(), parts[2], bytes).ok());
    EXPECT_EQ(testing::mismatch(got, want[0], 1e-5), "");
  }
  const auto seconds = device_->time_replays(**recording, 3);
  ASSERT_TRUE(seconds.ok());
  EXPECT_GT(*seconds, 0);
}

// What one call computes, two others read side by side, and one each what those compute.
TEST_P(OnDevice, CallsOfARecordingRunSideBySide) {
  if (!device_->features().plans) GTEST_SKIP() << "one after the other";
  std::string steps;
  for (const char* stage : {"mx", "ex", "sm", "inv", "Y"})
    steps += fmt::format("annotate {} r blockIdx.x\n", stage);
  const te::Dag dag = te::make_dag(te::parse_op_spec("softmax:R=256,C=512").value()).value();
  const auto lowered = lower::lower_device(dag, schedule::schedule_from_text(steps).value());
  ASSERT_TRUE(lowered.ok()) << lowered.error().message;
  const runtime::Binary binary = codegen::compile(lowered->program, device_->target()).value();
  const auto code = device_->load(binary);
  ASSERT_TRUE(code.ok()) << code.error().message;
  const std::size_t bytes = std::size_t{256} * 512 * 4, calls = 5;
  const std::size_t pieces = calls + 1 + calls * binary.temporaries.size();
  const auto memory = runtime::DeviceBuffer::make(*device_, pieces * bytes);
  ASSERT_TRUE(memory.ok());
  const auto part = [&](std::size_t i) {
    return device_->part(memory->get(), i * bytes, bytes).value();
  };
  std::size_t next = calls + 1;
  const auto call = [&](std::size_t from, std::size_t to) {
    runtime::Call out{code->get(), {part(from), part(to)}};
    for (std::size_t i = 0; i < binary.temporaries.size(); ++i) out.memory.push_back(part(next++));
    return out;
  };
  // 0 -> 1 -> 2 -> 4 and 1 -> 3 -> 5
  const auto recording =
      device_->record({call(0, 1), call(1, 2), call(1, 3), call(2, 4), call(3, 5)},
                      {.fetched = {}, .after = {{}, {0}, {0}, {1}, {2}}});
  ASSERT_TRUE(recording.ok()) << recording.error().message;
  for (std::uint64_t seed = 1; seed < 6; ++seed) {
    const std::vector<HostTensor> inputs = random_inputs(dag, seed);
    ASSERT_TRUE(device_->upload(part(0), inputs[0].data(), bytes).ok());
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(device_->replay(**recording).ok());
    std::vector<HostTensor> want = interp::run(dag, inputs).value();
    for (int i = 0; i < 2; ++i) want = interp::run(dag, want).value();
    for (const std::size_t at : {4u, 5u}) {
      HostTensor got(DType::kF32, {256, 512});
      ASSERT_TRUE(device_->download(got.data(), part(at), bytes).ok());
      EXPECT_EQ(testing::mismatch(got, want[0], 1e-5), "");
    }
  }
}

TEST_P(OnDevice, MemoryThatIsNotThereIsAnError) {
  const auto memory = device_->allocate(std::size_t{1} << 50);
  ASSERT_FALSE(memory.ok());
  EXPECT_EQ(memory.error().code, ErrorCode::kRunFailed);
  EXPECT_NE(memory.error().message.find("no memory for 1125899906842624 bytes"), std::string::npos);
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
