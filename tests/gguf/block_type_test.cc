// Expected values are those of the numpy dequantisation of the `gguf` package for the same bytes.
#include "tessera/frontend/gguf/block_type.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/support/dtype.h"

namespace tessera::gguf {
namespace {

const BlockType& type_named(const std::string& name) {
  const auto at =
      std::ranges::find_if(block_types(), [&](const auto& t) { return t.name == name; });
  EXPECT_NE(at, block_types().end()) << name;
  return *at;
}

// Arbitrary bytes, with scales that leave every element a multiple of 1/16.
std::vector<std::uint8_t> sample(const BlockType& type) {
  std::vector<std::uint8_t> out;
  std::uint32_t state = type.id;
  for (std::int64_t i = 0; i < type.bytes; ++i) {
    state = state * 1664525 + 1013904223;
    out.push_back(static_cast<std::uint8_t>(state >> 24));
  }
  const auto half = [&](std::size_t at, float v) {
    const std::uint16_t bits = f32_to_f16(v);
    std::memcpy(out.data() + at, &bits, sizeof(bits));
  };
  const std::string_view name = type.name;
  if (name == "MXFP4") {
    out[0] = 124;
  } else {
    half(name == "Q6_K" ? 208 : 0, .0625F);
  }
  if (name == "Q4_1" || name == "Q5_1") half(2, -.5F);
  if (name == "Q4_K" || name == "Q5_K") half(2, .125F);
  return out;
}

std::vector<std::int64_t> sixteenths(const BlockType& type,
                                     const std::vector<std::uint8_t>& block) {
  std::vector<float> values(static_cast<std::size_t>(type.elements));
  widen(type, block.data(), values);
  std::vector<std::int64_t> out;
  for (const float v : values) {
    out.push_back(std::lround(v * 16));
    EXPECT_EQ(static_cast<float>(out.back()) / 16, v) << type.name;
  }
  return out;
}

std::uint64_t hash_of(const std::vector<std::int64_t>& values) {
  std::uint64_t h = 1469598103934665603U;
  for (const std::int64_t v : values) h = (h ^ static_cast<std::uint64_t>(v)) * 1099511628211U;
  return h;
}

struct Expected {
  const char* type;
  std::uint64_t hash;                // of all elements
  std::array<std::int64_t, 6> ends;  // the first four and the last two, in sixteenths
};

TEST(BlockType, WidensAsTheReferenceDoes) {
  constexpr std::array kExpected = {
      Expected{"Q4_0", 0xcdb2de6e063f5299U, {-8, 5, -1, 6, -8, -3}},
      Expected{"Q4_1", 0x85381f3039f1bd13U, {-6, 5, -5, -5, -4, -4}},
      Expected{"Q5_0", 0xf7e484c5108bc3f2U, {14, -13, 15, 13, -6, -2}},
      Expected{"Q5_1", 0xa3cd3600c43b4d5fU, {-7, 3, 17, 16, -7, 3}},
      Expected{"Q8_0", 0x23248e777732411dU, {76, -10, -73, -102, 19, 58}},
      Expected{"Q4_K", 0x4aa57d45f3a037baU, {307, 406, 175, 241, 160, 547}},
      Expected{"Q5_K", 0x24226fdab6703e19U, {60, 108, 168, 12, 360, 292}},
      Expected{"Q6_K", 0xb0ac9de32f55e0a1U, {-403, 124, -713, 31, -2232, 1080}},
      Expected{"IQ4_NL", 0x80f712d9737820e6U, {-65, 1, -22, -65, 53, 13}},
      Expected{"MXFP4", 0x03bd49a427198f03U, {0, 6, -4, 0, -3, -2}},
  };
  std::size_t tested = 0;
  for (const Expected& e : kExpected) {
    SCOPED_TRACE(e.type);
    const BlockType& type = type_named(e.type);
    const std::vector<std::int64_t> values = sixteenths(type, sample(type));
    const std::size_t n = values.size();
    EXPECT_EQ(
        (std::array{values[0], values[1], values[2], values[3], values[n - 2], values[n - 1]}),
        e.ends);
    EXPECT_EQ(hash_of(values), e.hash);
    ++tested;
  }
  const auto integers = std::ranges::count_if(
      block_types(), [](const BlockType& t) { return t.take_apart != nullptr; });
  EXPECT_EQ(static_cast<std::ptrdiff_t>(tested), integers) << "every type has its case";
}

TEST(BlockType, FloatsAreReadAsTheyAre) {
  const std::array<std::uint16_t, 3> halves = {0x3c00, 0xc000, 0x3e00},
                                     short_floats = {0x3f80, 0xc000, 0x3fc0};
  const std::array<float, 3> values = {1, -2, 1.5};
  const auto check = [&](const char* name, const void* bytes) {
    std::array<float, 3> got{};
    widen(type_named(name), static_cast<const std::uint8_t*>(bytes), got);
    EXPECT_EQ(got, values) << name;
  };
  check("F16", halves.data());
  check("BF16", short_floats.data());
  check("F32", values.data());
}

TEST(BlockType, IntegersStayInTheirRange) {
  for (const BlockType& type : block_types()) {
    if (type.take_apart == nullptr) continue;
    std::array<std::int8_t, 256> q{};
    std::array<float, 16> scale{}, offset{};
    const auto size = static_cast<std::size_t>(type.elements);
    type.take_apart(sample(type).data(), {{q.data(), size}, scale, offset});
    const int least = type.is_signed ? -(1 << (type.bits - 1)) : 0,
              most = least + (1 << type.bits) - 1;
    for (std::size_t i = 0; i < size; ++i) {
      EXPECT_GE(q[i], least) << type.name;
      EXPECT_LE(q[i], most) << type.name;
    }
    EXPECT_EQ(type.elements % type.group, 0) << type.name;
    if (type.has_offset) continue;
    for (const float o : offset) EXPECT_EQ(o, 0) << type.name;
  }
}

}  // namespace
}  // namespace tessera::gguf
