#include "tessera/machine/runtime/aligned_buffer.h"

#include <cstdint>
#include <limits>
#include <new>
#include <utility>

#include <gtest/gtest.h>

namespace tessera::runtime {
namespace {

std::uintptr_t address(const AlignedBuffer& buffer) {
  return reinterpret_cast<std::uintptr_t>(buffer.data());
}

TEST(AlignedBuffer, AlignsSmallAndLarge) {
  for (const std::size_t bytes : {1U, 63U, 64U, 65U, 4097U, (2U << 20) - 1}) {
    const AlignedBuffer buffer(bytes);
    EXPECT_EQ(buffer.bytes(), bytes);
    EXPECT_EQ(address(buffer) % AlignedBuffer::kAlignment, 0U);
    buffer.as<std::uint8_t>()[bytes - 1] = 1;
  }
  const AlignedBuffer large(AlignedBuffer::kHugePageBytes + 5);
  EXPECT_EQ(address(large) % AlignedBuffer::kHugePageBytes, 0U);
  large.as<std::uint8_t>().back() = 1;
}

TEST(AlignedBuffer, EmptyHasNoMemory) {
  EXPECT_EQ(AlignedBuffer().data(), nullptr);
  EXPECT_EQ(AlignedBuffer(0).data(), nullptr);
  EXPECT_TRUE(AlignedBuffer(0).as<float>().empty());
}

TEST(AlignedBuffer, SpanLeavesOutAShortTail) {
  EXPECT_EQ(AlignedBuffer(11).as<float>().size(), 2U);
}

TEST(AlignedBuffer, Moves) {
  AlignedBuffer a(128);
  a.as<float>()[3] = 2.5F;
  const AlignedBuffer b = std::move(a);
  EXPECT_EQ(b.as<float>()[3], 2.5F);
}

TEST(AlignedBuffer, ImpossibleSizesThrow) {
  EXPECT_THROW(AlignedBuffer(std::numeric_limits<std::size_t>::max()), std::bad_alloc);
}

}  // namespace
}  // namespace tessera::runtime
