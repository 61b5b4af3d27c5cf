#include "tessera/frontend/gguf/block_type.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "tessera/support/check.h"
#include "tessera/support/dtype.h"

namespace tessera::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr std::size_t kSmall = 32;   // elements of a simple block
constexpr std::size_t kSuper = 256;  // of a block of blocks
constexpr std::size_t kMostGroups = 16;

std::uint16_t half_at(const std::uint8_t* bytes) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

std::uint32_t word_at(const std::uint8_t* bytes) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, bytes, sizeof(bits));
  return bits;
}

float f16_at(const std::uint8_t* bytes) { return f16_to_f32(half_at(bytes)); }
float bf16_at(const std::uint8_t* bytes) { return bf16_to_f32(half_at(bytes)); }
float f32_at(const std::uint8_t* bytes) { return std::bit_cast<float>(word_at(bytes)); }

// The low halves of the bytes are the first elements, the high ones the others.
void nibbles(const std::uint8_t* bytes, std::size_t count, std::int8_t* q) {
  for (std::size_t i = 0; i < count; ++i) {
    q[i] = static_cast<std::int8_t>(bytes[i] & 15);
    q[i + count] = static_cast<std::int8_t>(bytes[i] >> 4);
  }
}

void add(const Integers& to, int value) {
  for (std::int8_t& q : to.q) q = static_cast<std::int8_t>(q + value);
}

// The fifth bit of 32 elements.
void fifth_bits(std::uint32_t bits, std::int8_t* q) {
  for (std::size_t i = 0; i < kSmall; ++i)
    q[i] = static_cast<std::int8_t>(q[i] | static_cast<std::int8_t>((bits >> i & 1) << 4));
}

void take_q4_0(const std::uint8_t* b, const Integers& to) {
  to.scale[0] = f16_at(b);
  to.offset[0] = 0;
  nibbles(b + 2, kSmall / 2, to.q.data());
  add(to, -8);
}

void take_q4_1(const std::uint8_t* b, const Integers& to) {
  to.scale[0] = f16_at(b);
  to.offset[0] = f16_at(b + 2);
  nibbles(b + 4, kSmall / 2, to.q.data());
}

void take_q5_0(const std::uint8_t* b, const Integers& to) {
  to.scale[0] = f16_at(b);
  to.offset[0] = 0;
  nibbles(b + 6, kSmall / 2, to.q.data());
  fifth_bits(word_at(b + 2), to.q.data());
  add(to, -16);
}

void take_q5_1(const std::uint8_t* b, const Integers& to) {
  to.scale[0] = f16_at(b);
  to.offset[0] = f16_at(b + 2);
  nibbles(b + 8, kSmall / 2, to.q.data());
  fifth_bits(word_at(b + 4), to.q.data());
}

void take_q8_0(const std::uint8_t* b, const Integers& to) {
  to.scale[0] = f16_at(b);
  to.offset[0] = 0;
  std::memcpy(to.q.data(), b + 2, kSmall);
}

// Eight pairs of a scale and a minimum, of six bits each, in twelve bytes: the high bits of the
// last four pairs lie above the first four.
void six_bit_pairs(const std::uint8_t* b, const Integers& to) {
  const float d = f16_at(b), least = f16_at(b + 2);
  const std::uint8_t* s = b + 4;
  for (std::size_t g = 0; g < 8; ++g) {
    const bool first = g < 4;
    const int scale = first ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 6 << 4);
    const int offset = first ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 6 << 4);
    to.scale[g] = d * static_cast<float>(scale);
    to.offset[g] = -(least * static_cast<float>(offset));
  }
}

void take_q4_k(const std::uint8_t* b, const Integers& to) {
  six_bit_pairs(b, to);
  for (std::size_t pair = 0; pair < 4; ++pair)
    nibbles(b + 16 + 32 * pair, 32, to.q.data() + 64 * pair);
}

void take_q5_k(const std::uint8_t* b, const Integers& to) {
  six_bit_pairs(b, to);
  const std::uint8_t* high = b + 16;
  for (std::size_t pair = 0; pair < 4; ++pair)
    nibbles(b + 48 + 32 * pair, 32, to.q.data() + 64 * pair);
  for (std::size_t i = 0; i < kSuper; ++i)
    to.q[i] = static_cast<std::int8_t>(to.q[i] + ((high[i % 32] >> (i / 32) & 1) << 4));
}

void take_q6_k(const std::uint8_t* b, const Integers& to) {
  const std::uint8_t *high = b + 128, *scales = b + 192;
  const float d = f16_at(b + 208);
  for (std::size_t half = 0; half < 2; ++half) nibbles(b + 64 * half, 64, to.q.data() + 128 * half);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t half = i / 128, in_half = i % 128;
    const int bits = high[32 * half + in_half % 32] >> (2 * (in_half / 32)) & 3;
    to.q[i] = static_cast<std::int8_t>((to.q[i] | (bits << 4)) - 32);
  }
  for (std::size_t g = 0; g < kMostGroups; ++g) {
    to.scale[g] = d * static_cast<float>(static_cast<std::int8_t>(scales[g]));
    to.offset[g] = 0;
  }
}

void look_up(const std::array<std::int8_t, 16>& table, const Integers& to) {
  for (std::int8_t& q : to.q) q = table[static_cast<std::uint8_t>(q)];
}

void take_iq4_nl(const std::uint8_t* b, const Integers& to) {
  static constexpr std::array<std::int8_t, 16> kValues = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                          1,    13,   25,  38,  53,  69,  89,  113};
  to.scale[0] = f16_at(b);
  to.offset[0] = 0;
  nibbles(b + 2, kSmall / 2, to.q.data());
  look_up(kValues, to);
}

void take_mxfp4(const std::uint8_t* b, const Integers& to) {
  static constexpr std::array<std::int8_t, 16> kTwice = {0, 1,  2,  3,  4,  6,  8,  12,
                                                         0, -1, -2, -3, -4, -6, -8, -12};
  to.scale[0] = std::ldexp(1.0F, b[0] - 128);  // half of 2^(e - 127), as the table has twice
  to.offset[0] = 0;
  nibbles(b + 1, kSmall / 2, to.q.data());
  look_up(kTwice, to);
}

constexpr BlockType floats(std::uint32_t id, const char* name, std::int64_t bytes,
                           float (*element)(const std::uint8_t*)) {
  return {.id = id, .name = name, .elements = 1, .bytes = bytes, .element = element};
}

constexpr BlockType other(std::uint32_t id, const char* name, std::int64_t elements,
                          std::int64_t bytes) {
  return {.id = id, .name = name, .elements = elements, .bytes = bytes};
}

constexpr std::array kTypes = {
    floats(0, "F32", 4, f32_at),
    floats(1, "F16", 2, f16_at),
    BlockType{2, "Q4_0", 32, 18, 4, 32, true, false, true, take_q4_0},
    BlockType{3, "Q4_1", 32, 20, 4, 32, false, true, true, take_q4_1},
    BlockType{6, "Q5_0", 32, 22, 5, 32, true, false, true, take_q5_0},
    BlockType{7, "Q5_1", 32, 24, 5, 32, false, true, true, take_q5_1},
    BlockType{8, "Q8_0", 32, 34, 8, 32, true, false, true, take_q8_0},
    other(9, "Q8_1", 32, 40),
    other(10, "Q2_K", 256, 84),
    other(11, "Q3_K", 256, 110),
    BlockType{12, "Q4_K", 256, 144, 4, 32, false, true, false, take_q4_k},
    BlockType{13, "Q5_K", 256, 176, 5, 32, false, true, false, take_q5_k},
    BlockType{14, "Q6_K", 256, 210, 6, 16, true, false, false, take_q6_k},
    other(15, "Q8_K", 256, 292),
    other(16, "IQ2_XXS", 256, 66),
    other(17, "IQ2_XS", 256, 74),
    other(18, "IQ3_XXS", 256, 98),
    other(19, "IQ1_S", 256, 50),
    BlockType{20, "IQ4_NL", 32, 18, 8, 32, true, false, true, take_iq4_nl},
    other(21, "IQ3_S", 256, 110),
    other(22, "IQ2_S", 256, 82),
    other(23, "IQ4_XS", 256, 136),
    other(24, "I8", 1, 1),
    other(25, "I16", 1, 2),
    other(26, "I32", 1, 4),
    other(27, "I64", 1, 8),
    other(28, "F64", 1, 8),
    other(29, "IQ1_M", 256, 56),
    floats(30, "BF16", 2, bf16_at),
    other(34, "TQ1_0", 256, 54),
    other(35, "TQ2_0", 256, 66),
    BlockType{39, "MXFP4", 32, 17, 5, 32, true, false, false, take_mxfp4},
    other(40, "NVFP4", 64, 36),
    other(41, "Q1_0", 128, 18),
};

}  // namespace

std::span<const BlockType> block_types() { return kTypes; }

const BlockType* find_block_type(std::uint32_t id) {
  const auto* row = std::ranges::find(kTypes, id, &BlockType::id);
  return row == kTypes.end() ? nullptr : row;
}

void widen(const BlockType& type, const std::uint8_t* blocks, std::span<float> to) {
  TESSERA_CHECK(type.readable() && to.size() % static_cast<std::size_t>(type.elements) == 0,
                "{} elements of {}", to.size(), type.name);
  const auto bytes = static_cast<std::size_t>(type.bytes);
  if (type.element != nullptr) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = type.element(blocks + i * bytes);
    return;
  }
  std::array<std::int8_t, kSuper> q{};
  std::array<float, kMostGroups> scale{}, offset{};
  const auto size = static_cast<std::size_t>(type.elements);
  const auto group = static_cast<std::size_t>(type.group);
  for (std::size_t at = 0; at < to.size(); at += size, blocks += bytes) {
    type.take_apart(blocks, {{q.data(), size}, scale, offset});
    for (std::size_t i = 0; i < size; ++i)
      to[at + i] = scale[i / group] * static_cast<float>(q[i]) + offset[i / group];
  }
}

}  // namespace tessera::gguf
