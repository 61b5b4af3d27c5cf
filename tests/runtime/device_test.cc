#include <cstring>

#include <gtest/gtest.h>

#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/runtime/device/shared_library.h"
#include "tests/testing/devices.h"

namespace tessera::runtime {
namespace {

TEST(CpuDevice, KeepsWhatIsUploaded) {
  ThreadPool pool({.threads = 1});
  CpuDevice device(pool);
  EXPECT_EQ(device.target().code_threads(), 1);
  const std::vector<float> sent = {1, 2, 3};
  std::vector<float> got(3);
  const Result<DeviceBuffer> buffer = DeviceBuffer::make(device, 12);
  ASSERT_TRUE(buffer.ok());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer->get()) % 64, 0u);
  ASSERT_TRUE(device.upload(buffer->get(), sent.data(), 12).ok());
  ASSERT_TRUE(device.download(got.data(), buffer->get(), 12).ok());
  EXPECT_EQ(got, sent);
  EXPECT_TRUE(device.synchronise().ok());
  EXPECT_TRUE(DeviceBuffer::make(device, 0).ok());
}

// Of whatever device there is.
void expect_fills(Device& device) {
  constexpr std::size_t kPart = Device::kPartAlignment;
  const Result<DeviceBuffer> whole = DeviceBuffer::make(device, 3 * kPart);
  ASSERT_TRUE(whole.ok());
  ASSERT_TRUE(device.fill(whole->get(), 0xa5, 3 * kPart).ok());
  const Result<void*> part = device.part(whole->get(), kPart, kPart);
  ASSERT_TRUE(part.ok()) << part.error().message;
  ASSERT_TRUE(device.fill(*part, 7, kPart).ok());
  EXPECT_TRUE(device.fill(*part, 8, 0).ok());
  std::vector<std::uint8_t> got(3 * kPart);
  ASSERT_TRUE(device.download(got.data(), whole->get(), got.size()).ok());
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got[i], i / kPart == 1 ? 7 : 0xa5) << "at " << i;
}

TEST(CpuDevice, FillsMemory) {
  ThreadPool pool({.threads = 1});
  CpuDevice device(pool);
  expect_fills(device);
}

TEST(Devices, FillMemory) {
  int found = 0;
  for (const target::Kind kind : {target::Kind::kCuda, target::Kind::kOpenCl}) {
    const auto device = open_device(kind);
    if (!testing::has_device(to_text(kind), device)) continue;
    ++found;
    expect_fills(**device);
  }
  if (found == 0) GTEST_SKIP() << "no device";
}

TEST(CpuDevice, MemoryThatIsNotThereIsAnError) {
  ThreadPool pool({.threads = 1});
  CpuDevice device(pool);
  const auto buffer = device.allocate(std::size_t{1} << 62);
  ASSERT_FALSE(buffer.ok());
  EXPECT_EQ(buffer.error().code, ErrorCode::kRunFailed);
}

TEST(CpuDevice, RefusesWhatIsNotObjectCodeOfThisMachine) {
  ThreadPool pool({.threads = 1});
  CpuDevice device(pool);
  Binary ptx;
  ptx.kind = BinaryKind::kPtx;
  ptx.target = target::find_target("h200").value();
  const auto refused = device.load(ptx);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "code for target h200 does not run on this machine");
  Binary empty;
  empty.target = target::host();
  EXPECT_EQ(device.load(empty).error().code, ErrorCode::kInvalidArgument);
  empty.kernels = {{"f"}};
  EXPECT_EQ(device.load(empty).error().code, ErrorCode::kBuildFailed);
}

TEST(Devices, AnAbsentOneSaysWhy) {
  for (const target::Kind kind : {target::Kind::kCuda, target::Kind::kOpenCl}) {
    const auto device = open_device(kind);
    const auto target = resolve_target(target::to_text(kind));
    ASSERT_EQ(device.ok(), target.ok());
    if (device.ok()) {
      EXPECT_EQ(target->kind, kind);
      EXPECT_GT(target->gpu.block_threads, 0);
      EXPECT_EQ(target::to_text(target::target_from_text(target::to_text(*target)).value()),
                target::to_text(*target));
      continue;
    }
    EXPECT_EQ(device.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(device.error().message, "");
    EXPECT_EQ(target.error().message,
              std::string("target ") + target::to_text(kind) + ": " + device.error().message);
  }
}

TEST(Devices, ACpuIsThisProcessWithAPoolOfItsOwn) {
  const auto device = open_device(target::Kind::kCpu, {.threads = 2});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->target().code_threads(), 2);
  EXPECT_TRUE((*device)->features().in_process);
  EXPECT_FALSE((*device)->features().plans);
  expect_fills(**device);
  EXPECT_TRUE(open_device("cpu").ok());
  EXPECT_EQ(open_device("abacus").error().code, ErrorCode::kInvalidArgument);
  const DeviceSession outer(**device), inner(**device);
  EXPECT_TRUE((*device)->synchronise().ok());
}

TEST(ResolveTarget, KnowsTheTableToo) {
  EXPECT_EQ(resolve_target("h200")->cores, 132);
  EXPECT_EQ(resolve_target("host")->name, "host");
  EXPECT_EQ(resolve_target("h2000").error().code, ErrorCode::kInvalidArgument);
}

TEST(SharedLibrary, AbsentOnesAndFunctionsAreErrors) {
  EXPECT_EQ(SharedLibrary::open("libno-such-library.so.9").error().code, ErrorCode::kUnavailable);
  const auto libc = SharedLibrary::open("libc.so.6");
  ASSERT_TRUE(libc.ok());
  int (*absolute)(int) = nullptr;
  ASSERT_TRUE(libc->find("abs", &absolute).ok());
  EXPECT_EQ(absolute(-3), 3);
  EXPECT_EQ(libc->find("no_such_function", &absolute).error().message,
            "libc.so.6 has no no_such_function");
}

}  // namespace
}  // namespace tessera::runtime
