// Element types narrower than any DType: integers of 2 and 4 bits, floats of 4 and 8. Constants of
// them are kept in a wider type that holds every value.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/support/host_tensor.h"

namespace tessera::onnx {

struct NarrowType {
  const char* name;  // as element_type_name
  int bits;          // of an element; bytes hold several, the first in the lowest bits
  DType wide;        // i8 or u8 of integers, f32 of floats
  double (*decode)(unsigned bits);
};

std::span<const NarrowType> narrow_types();
// Null when the type is not narrow.
const NarrowType* find_narrow_type(std::string_view name);

// Bytes that `count` elements take.
std::size_t packed_bytes(const NarrowType& type, std::int64_t count);

// The elements that `bytes`, of packed_bytes() for the shape, stand for.
HostTensor widen(const NarrowType& type, const Shape& shape, std::string_view bytes);

// The bytes of integers that the type holds; `wide` is of type.wide.
std::string pack(const NarrowType& type, const HostTensor& wide);

}  // namespace tessera::onnx
