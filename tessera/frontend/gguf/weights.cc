#include "tessera/frontend/gguf/weights.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tessera/frontend/onnx/model_files.h"

namespace tessera::gguf {
namespace {

bool is_left(DType dtype, const Shape& shape, Values values) {
  const auto bytes = static_cast<std::size_t>(elements(shape) * size_bytes(dtype));
  return values == Values::kLeft && bytes > onnx::kOutlineBytes;
}

// A tensor that nobody reads: it lies anywhere in the file.
HostTensor left(const File& file, DType dtype, Shape shape) {
  return HostTensor::view(dtype, std::move(shape), file.owner(),
                          file.tensors().front().bytes.data());
}

std::int64_t columns_of(const Tensor& t) { return t.shape.back(); }
std::int64_t rows_of(const Tensor& t) { return t.size() / columns_of(t); }

// One row of blocks, as bytes of q, scales and offsets.
class Row {
 public:
  Row(const BlockType& type, std::int64_t bits)
      : type_(type), middle_(type.is_signed ? 1 << (bits - 1) : 0), two_(bits == 4) {}

  // From group `at` of the tensors on.
  void unpack(const std::uint8_t* blocks, std::int64_t count, std::uint8_t* q, std::int64_t at,
              HostTensor& scale, HostTensor& offset) {
    const auto elements = static_cast<std::size_t>(type_.elements);
    const auto groups = static_cast<std::size_t>(type_.elements / type_.group);
    for (std::int64_t b = 0; b < count; ++b) {
      type_.take_apart(blocks, {{q_.data(), elements}, scale_, offset_});
      for (std::size_t i = 0; i < elements; i += two_ ? 2 : 1) {
        const unsigned low = byte(i), high = two_ ? byte(i + 1) << 4 : 0;
        *q++ = static_cast<std::uint8_t>(low | high);
      }
      for (std::size_t g = 0; g < groups; ++g, ++at) {
        put(scale, at, scale_[g]);
        if (type_.has_offset) put(offset, at, offset_[g]);
      }
      blocks += type_.bytes;
    }
  }

 private:
  static void put(HostTensor& to, std::int64_t at, float v) {
    if (to.dtype() == DType::kF16) {
      to.as<std::uint16_t>()[at] = f32_to_f16(v);
    } else {
      to.as<float>()[at] = v;
    }
  }
  unsigned byte(std::size_t i) const { return static_cast<std::uint8_t>(q_[i] + middle_); }

  const BlockType& type_;
  int middle_ = 0;
  bool two_ = false;
  std::array<std::int8_t, 256> q_{};
  std::array<float, 16> scale_{}, offset_{};
};

Grouped unpack(const std::vector<const Tensor*>& rows, std::int64_t bits, const File& file,
               Values values);

}  // namespace

bool are_grouped(const std::vector<const Tensor*>& rows) {
  return std::ranges::all_of(rows, [&](const Tensor* t) {
    return t->type == rows[0]->type && t->type->take_apart != nullptr && t->shape.size() == 2 &&
           columns_of(*t) == columns_of(*rows[0]);
  });
}

Grouped grouped(const std::vector<const Tensor*>& rows, const File& file, Values values) {
  return unpack(rows, rows[0]->type->bits == 4 ? 4 : 8, file, values);
}

Grouped grouped_bytes(const Tensor& rows, const File& file, Values values) {
  return unpack({&rows}, 8, file, values);
}

namespace {

Grouped unpack(const std::vector<const Tensor*>& rows, std::int64_t bits, const File& file,
               Values values) {
  const BlockType& type = *rows[0]->type;
  const std::int64_t columns = columns_of(*rows[0]);
  std::int64_t count = 0;
  for (const Tensor* t : rows) count += rows_of(*t);
  Grouped out{.bits = bits, .group = type.group, .q = {}, .scale = {}, .offset = {}};
  const std::int64_t row_bytes = columns * out.bits / 8, groups = columns / type.group;
  const Shape shape = {count, row_bytes}, shared = {count, groups};
  const DType of_groups = type.halves ? DType::kF16 : DType::kF32;
  out.offset = HostTensor(of_groups, {0});
  const auto made = [&](DType dtype, const Shape& s) {
    return is_left(dtype, s, values) ? left(file, dtype, s) : HostTensor(dtype, s);
  };
  out.q = made(DType::kU8, shape);
  out.scale = made(of_groups, shared);
  if (type.has_offset) out.offset = made(of_groups, shared);
  if (is_left(DType::kU8, shape, values)) return out;  // scales have fewer bytes
  const std::int64_t blocks = columns / type.elements;
  std::int64_t at = 0;
  for (const Tensor* t : rows) {
    const auto* bytes = reinterpret_cast<const std::uint8_t*>(t->bytes.data());
    Row row(type, out.bits);
    for (std::int64_t r = 0; r < rows_of(*t); ++r, ++at) {
      row.unpack(bytes + r * blocks * type.bytes, blocks, out.q.as<std::uint8_t>() + at * row_bytes,
                 at * groups, out.scale, out.offset);
    }
  }
  return out;
}

}  // namespace

Result<HostTensor> plain(const Tensor& tensor, const File& file, Values values) {
  const std::string_view type = tensor.type->name;
  const bool narrow = type == "F16" || type == "BF16";
  const DType dtype = narrow ? (type == "F16" ? DType::kF16 : DType::kBF16) : DType::kF32;
  if (tensor.type->readable() && is_left(dtype, tensor.shape, values))
    return left(file, dtype, tensor.shape);
  if (!narrow) return widened(tensor);
  HostTensor out(dtype, tensor.shape);
  if (out.bytes() > 0) std::memcpy(out.data(), tensor.bytes.data(), out.bytes());
  return out;
}

}  // namespace tessera::gguf
