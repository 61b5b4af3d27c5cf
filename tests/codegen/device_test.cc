// Programs on the devices of this machine, against the interpreter: an OpenCL device (PoCL is one
// on any CPU) and a CUDA device.
#include <gtest/gtest.h>

#include "device_program.h"
#include "kernel_runner.h"
#include "micro_kernel.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tests/testing/devices.h"
#include "tests/testing/testing.h"

namespace tessera::codegen {
namespace {

using target::Kind;

class OnDevice : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<runtime::Device>> device = runtime::open_device(GetParam());
    if (!testing::has_device(to_text(GetParam()), device)) GTEST_SKIP() << device.error().message;
    device_ = std::move(*device);
  }

  void expect_like_interp(const ir::DeviceProgram& program, double tolerance) {
    Rng rng(1);
    std::vector<HostTensor> params, want;
    const std::size_t inputs =
        program.params.size() - static_cast<std::size_t>(program.num_outputs);
    for (std::size_t i = 0; i < program.params.size(); ++i) {
      const ir::Buffer& b = program.params[i];
      params.push_back(i < inputs ? random_tensor(b->dtype, b->shape, rng)
                                  : HostTensor(b->dtype, b->shape));
      want.push_back(params.back().clone());
    }
    const auto interpreted = interp::run(program, want);
    ASSERT_TRUE(interpreted.ok()) << interpreted.error().message;
    const Result<Binary> binary = compile(program, device_->target(), {.verify_llvm = true});
    ASSERT_TRUE(binary.ok()) << binary.error().message;
    const auto code = device_->load(*binary);
    ASSERT_TRUE(code.ok()) << code.error().message;
    std::vector<runtime::DeviceBuffer> memory;
    std::vector<void*> handles;
    for (const HostTensor& t : params) {
      memory.push_back(runtime::DeviceBuffer::make(*device_, t.bytes()).value());
      ASSERT_TRUE(device_->upload(memory.back().get(), t.data(), t.bytes()).ok());
      handles.push_back(memory.back().get());
    }
    const auto launched = device_->launch(**code, handles);
    ASSERT_TRUE(launched.ok()) << launched.error().message;
    for (std::size_t i = inputs; i < params.size(); ++i) {
      HostTensor got(params[i].dtype(), params[i].shape());
      const auto read = device_->download(got.data(), handles[i], got.bytes());
      ASSERT_TRUE(read.ok()) << read.error().message;
      EXPECT_EQ(testing::mismatch(got, want[i], tolerance), "") << program.params[i]->name;
    }
    const Result<double> seconds = device_->time(**code, handles, 3);
    ASSERT_TRUE(seconds.ok()) << seconds.error().message;
    EXPECT_GT(*seconds, 0);
  }

  std::unique_ptr<runtime::Device> device_;
};

TEST_P(OnDevice, Matmul) { expect_like_interp(tiled_matmul(128), 1e-4); }

TEST_P(OnDevice, SumsOfRowsInTwoLaunches) { expect_like_interp(row_sums(32), 1e-4); }

TEST_P(OnDevice, TypesRoundAsTheIrSays) {
  for (const char* t : {"f16", "bf16", "f8e4m3", "f8e5m2", "f32", "i8", "u8", "i32", "i64"}) {
    expect_like_interp(
        parse_program(fmt::format("device p(A: {0}[4, 128]) -> (B: {0}[4, 128]) {{\n"
                                  "launch k(A) -> (B) {{ grid bx in 4, by in 1, bz in 1\n"
                                  "block tx in 32, ty in 1, tz in 1\n"
                                  "B[bx, ramp(tx * 4, 1, 4)] = max(A[bx, ramp(tx * 4, 1, 4)] - "
                                  "A[bx, ramp(124 - tx * 4, 1, 4)], A[bx, ramp(tx * 4, 1, 4)])\n"
                                  "}} }}\n",
                                  t)),
        0);
  }
}

TEST_P(OnDevice, Functions) {
  for (const char* fn : {"exp", "log", "tanh", "erf", "sqrt", "abs", "floor", "round"}) {
    expect_like_interp(
        parse_program(fmt::format("device p(A: f32[4, 32]) -> (B: f32[4, 32]) {{\n"
                                  "launch k(A) -> (B) {{ grid bx in 4, by in 1, bz in 1\n"
                                  "block tx in 32, ty in 1, tz in 1\n"
                                  "B[bx, tx] = {}(abs(A[bx, tx]) + 0.25)\n"
                                  "}} }}\n",
                                  fn)),
        1e-5);
  }
}

TEST_P(OnDevice, RefusesCodeOfOtherKinds) {
  const Binary object = compile_kernel(micro_kernel(4, 4, 4, 8), target::host()).value();
  const auto refused = device_->load(object);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

TEST_P(OnDevice, TheCompilersWordsAreTheReason) {
  Binary binary = compile(row_sums(32), device_->target()).value();
  const std::string nonsense = "this is no program";
  binary.bytes.assign(nonsense.begin(), nonsense.end());
  const auto refused = device_->load(binary);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kBuildFailed);
}

INSTANTIATE_TEST_SUITE_P(Gpu, OnDevice, ::testing::Values(Kind::kCuda, Kind::kOpenCl),
                         [](const auto& kind) { return std::string(target::to_text(kind.param)); });

// Source of every launch, without a device.
TEST(OpenCl, PrintsAKernelPerLaunch) {
  const Result<Binary> binary = compile(row_sums(32), target::find_target("opencl-1.2").value());
  ASSERT_TRUE(binary.ok()) << binary.error().message;
  EXPECT_EQ(binary->kind, runtime::BinaryKind::kOpenClC);
  const std::string text(binary->bytes.begin(), binary->bytes.end());
  EXPECT_EQ(count(text, "__kernel"), 2);
  EXPECT_EQ(count(text, "reqd_work_group_size(64, 1, 1)"), 1);
  EXPECT_NE(text.find("void tsr1_scale("), std::string::npos);
}

TEST(OpenCl, NamesWhatTheLanguageLacks) {
  const Result<Binary> binary =
      compile(parse_program("device p(A: f32[32]) -> (B: f32[32]) { launch k(A) -> (B) {\n"
                            "grid bx in 1, by in 1, bz in 1 block tx in 32, ty in 1, tz in 1\n"
                            "if tx < 16 { B[tx] = shuffle_xor(A[tx], 1) } } }"),
              target::find_target("opencl-1.2").value());
  ASSERT_FALSE(binary.ok());
  EXPECT_EQ(binary.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(binary.error().message, "k: shuffle_xor in a branch in OpenCL C");
}

}  // namespace
}  // namespace tessera::codegen
