// Tensors of a file as constants of an ONNX model: no wider than they have to be.
#pragma once

#include <memory>
#include <vector>

#include "tessera/frontend/gguf/file.h"
#include "tessera/frontend/onnx/model.h"

namespace tessera::gguf {

enum class Values : std::uint8_t {
  kRead,
  // As onnx::load_outline: of what is larger than onnx::kOutlineBytes types and shapes alone.
  // Scales and offsets beside such a tensor are 0.
  kLeft,
};

// Rows of integers with a scale and an offset for each group.
struct Grouped {
  std::int64_t bits = 8, group = 32;  // 4 or 8
  HostTensor q;                       // u8 [rows, columns]; of 4 bits, two in a byte
  HostTensor scale;                   // f16 or f32 [rows, columns / group]
  HostTensor offset;                  // the same; without elements where q has a middle instead,
                                      // 2^(bits - 1), which stands for 0
  bool has_offset() const { return offset.size() > 0; }
};

// Whether the tensors are integers in groups of one kind, and can be rows of one matrix.
bool are_grouped(const std::vector<const Tensor*>& rows);
// The rows of all tensors, one after the other. are_grouped() must hold.
Grouped grouped(const std::vector<const Tensor*>& rows, const File& file, Values values);

// The same of one tensor, with 8 bits for an element in any case.
Grouped grouped_bytes(const Tensor& rows, const File& file, Values values);

// Floats as the file has them, f32 of integers. kUnsupported: of a type that is only named.
Result<HostTensor> plain(const Tensor& tensor, const File& file, Values values);

}  // namespace tessera::gguf
