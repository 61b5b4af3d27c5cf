// How a GGUF file stores the elements of a tensor: in blocks, each a few bytes for several
// elements.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::gguf {

// A block taken apart: element i is q[i] * scale[i / group] + offset[i / group].
struct Integers {
  std::span<std::int8_t> q;
  std::span<float> scale, offset;  // one for each group of the block
};

struct BlockType {
  std::uint32_t id = 0;  // in the file
  const char* name = "";
  std::int64_t elements = 1, bytes = 0;  // of a block
  // Of types that are integers with a scale for each group of elements; 0: of others.
  int bits = 0;
  std::int64_t group = 0;
  bool is_signed = false;  // q is in [-2^(bits-1), 2^(bits-1)), else in [0, 2^bits)
  bool has_offset = false;
  bool halves = false;  // scales and offsets are f16
  void (*take_apart)(const std::uint8_t* block, const Integers& to) = nullptr;
  // Of plain floats.
  float (*element)(const std::uint8_t* bytes) = nullptr;

  bool readable() const { return take_apart != nullptr || element != nullptr; }
};

// All types that the format has; those that are not readable have a name and a size alone.
std::span<const BlockType> block_types();
const BlockType* find_block_type(std::uint32_t id);  // null: unknown

// The elements of whole blocks as f32. The type must be readable and `to` have their number.
void widen(const BlockType& type, const std::uint8_t* blocks, std::span<float> to);

}  // namespace tessera::gguf
