#include "tessera/trials/measure/guarded_buffer.h"

#include <cstdint>
#include <cstring>

#include <gtest/gtest.h>

namespace tessera::measure {
namespace {

class GuardedBufferSizes : public ::testing::TestWithParam<std::size_t> {};

TEST_P(GuardedBufferSizes, TellsWhatWasWrittenAround) {
  const std::size_t bytes = GetParam();
  auto made = GuardedBuffer::make(bytes);
  ASSERT_TRUE(made.ok()) << made.error().message;
  GuardedBuffer buffer = std::move(made).value();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % 64, 0u);
  if (bytes >= (2u << 20)) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % (2u << 20), 0u);
  }
  if (bytes > 0) std::memset(buffer.data(), 1, bytes);
  EXPECT_EQ(buffer.damage(), "");
  buffer.data()[bytes] = std::byte{7};
  EXPECT_EQ(buffer.damage(), "the 1 bytes from 0 beyond the end");
  buffer.repair();
  EXPECT_EQ(buffer.damage(), "");
  std::memset(buffer.data() - 8, 0, 4);
  EXPECT_EQ(buffer.damage(), "the 4 bytes from 8 before the start");
}

INSTANTIATE_TEST_SUITE_P(All, GuardedBufferSizes,
                         ::testing::Values(0u, 1u, 64u, 4096u, 5000u, (2u << 20) - 1, 2u << 20,
                                           (3u << 20) + 12));

TEST(GuardedBuffer, FarAccessEndsTheProcessWithItsOwnStatus) {
  const auto far_write = [] {
    watch_guards();
    auto buffer = GuardedBuffer::make(100);
    *const_cast<volatile std::byte*>(buffer->data() + 3 * 4096) = std::byte{1};
  };
  EXPECT_EXIT(far_write(), ::testing::ExitedWithCode(kGuardExit), "");
  const auto input_write = [] {
    watch_guards();
    auto buffer = GuardedBuffer::make(100);
    buffer->protect();
    *const_cast<volatile std::byte*>(buffer->data()) = std::byte{1};
  };
  EXPECT_EXIT(input_write(), ::testing::ExitedWithCode(kGuardExit), "");
  const auto elsewhere = [] {
    watch_guards();
    volatile std::uintptr_t nowhere = 8;
    *reinterpret_cast<volatile char*>(nowhere) = 1;
  };
  EXPECT_EXIT(elsewhere(), ::testing::KilledBySignal(SIGSEGV), "");
}

TEST(GuardedBuffer, RefusesWhatNoMachineHas) {
  EXPECT_FALSE(GuardedBuffer::make(std::size_t{1} << 60).ok());
  EXPECT_FALSE(GuardedBuffer::make(~std::size_t{0}).ok());
}

}  // namespace
}  // namespace tessera::measure
