#include "tessera/frontend/onnx/ops/element_type.h"

#include "tessera/frontend/onnx/tensor_io.h"

namespace tessera::onnx {
namespace {

struct Word {
  const char* word;
  DType dtype;
};
constexpr Word kWords[] = {
    {"BOOL", DType::kBool},   {"DOUBLE", DType::kF64}, {"FLOAT", DType::kF32},
    {"FLOAT16", DType::kF16}, {"INT16", DType::kI16},  {"INT32", DType::kI32},
    {"INT64", DType::kI64},   {"INT8", DType::kI8},    {"UINT16", DType::kU16},
    {"UINT32", DType::kU32},  {"UINT64", DType::kU64}, {"UINT8", DType::kU8},
};

}  // namespace

Result<DType> dtype_of_number(std::int64_t onnx_type) {
  const int number = onnx_type >= 0 && onnx_type < 1000 ? static_cast<int>(onnx_type) : 0;
  const std::string name = element_type_name(number);
  if (const auto dtype = dtype_from_text(name)) return *dtype;
  return make_error(ErrorCode::kUnsupported, "element type {} is not supported", name);
}

Result<DType> dtype_of_word(std::string_view word) {
  for (const Word& row : kWords) {
    if (row.word == word) return row.dtype;
  }
  return make_error(ErrorCode::kUnsupported, "element type {} is not supported", word);
}

}  // namespace tessera::onnx
