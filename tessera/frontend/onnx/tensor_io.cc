#include "tessera/frontend/onnx/tensor_io.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <filesystem>

#include "tessera/frontend/onnx/narrow_types.h"
#include "tessera/frontend/onnx/payloads.h"

namespace tessera::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw_data is little-endian");

// Indexed by TensorProto.DataType.
constexpr std::array<const char*, 27> kTypeNames = {"undefined",
                                                    "f32",
                                                    "u8",
                                                    "i8",
                                                    "u16",
                                                    "i16",
                                                    "i32",
                                                    "i64",
                                                    "string",
                                                    "bool",
                                                    "f16",
                                                    "f64",
                                                    "u32",
                                                    "u64",
                                                    "complex64",
                                                    "complex128",
                                                    "bf16",
                                                    "f8e4m3",
                                                    "float8e4m3fnuz",
                                                    "f8e5m2",
                                                    "float8e5m2fnuz",
                                                    "uint4",
                                                    "int4",
                                                    "float4e2m1",
                                                    "float8e8m0",
                                                    "uint2",
                                                    "int2"};

// A sparse tensor of a few bytes can ask for any dense size.
constexpr std::int64_t kMaxDenseBytes = std::int64_t{256} << 20;

Error invalid(const tessera_onnx::TensorProto& tensor, const std::string& reason) {
  return make_error(ErrorCode::kInvalidArgument, "tensor '{}': {}", tensor.name(), reason);
}

Result<std::uint64_t> parse_size(const tessera_onnx::TensorProto& tensor,
                                 const tessera_onnx::StringStringEntryProto& entry) {
  const std::string& text = entry.value();
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) {
    return invalid(tensor, fmt::format("external {} '{}' is not a size", entry.key(), text));
  }
  return value;
}

bool leaves_folder(const std::string& location) {
  const std::filesystem::path path(location);
  if (path.is_absolute() || path.empty()) return true;
  for (const auto& part : path) {
    if (part == "..") return true;
  }
  return location.find('\0') != std::string::npos;
}

// Elements stored one by one in a typed field wider than the element.
template <class Field>
Result<HostTensor> from_field(const tessera_onnx::TensorProto& tensor, DType dtype, Shape shape,
                              std::int64_t count, const Field& field) {
  if (field.size() != count) {
    return invalid(tensor, fmt::format("{} values for shape {}", field.size(), to_text(shape)));
  }
  HostTensor out(dtype, std::move(shape));
  for (std::int64_t i = 0; i < count; ++i) {
    const auto v = field.Get(static_cast<int>(i));
    if (compute_type(dtype) != dtype) {  // bits, not a number
      if (size_bytes(dtype) == 1) {
        out.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(v);
      } else {
        out.as<std::uint16_t>()[i] = static_cast<std::uint16_t>(v);
      }
    } else if (is_float(dtype)) {
      out.set_float(i, static_cast<double>(v));
    } else {
      out.set_int(i, static_cast<std::int64_t>(v));
    }
  }
  return out;
}

// Whether a tensor may stay where it lies: kernels want 64 bytes of alignment.
bool stays(const TensorBytes& from, Reading reading) {
  constexpr std::uintptr_t kAlignment = 64;
  if (!from.owner || from.bytes.size() < kLeastPayload) return false;
  return reinterpret_cast<std::uintptr_t>(from.bytes.data()) % kAlignment == 0 ||
         (reading == Reading::kOutline && from.bytes.size() > kOutlineBytes);
}

Result<HostTensor> from_bytes(const tessera_onnx::TensorProto& tensor, DType dtype, Shape shape,
                              std::int64_t count, const TensorBytes& from, Reading reading) {
  const std::string_view bytes = from.bytes;
  const auto want = static_cast<std::size_t>(count) * static_cast<std::size_t>(size_bytes(dtype));
  if (bytes.size() != want) {
    return invalid(tensor, fmt::format("{} bytes for shape {} of {}: {} expected", bytes.size(),
                                       to_text(shape), to_text(dtype), want));
  }
  if (stays(from, reading)) {
    return HostTensor::view(dtype, std::move(shape), from.owner, bytes.data());
  }
  HostTensor out(dtype, std::move(shape));
  if (want != 0) std::memcpy(out.data(), bytes.data(), want);
  return out;
}

Result<HostTensor> from_typed_fields(const tessera_onnx::TensorProto& t, DType dtype, Shape shape,
                                     std::int64_t count) {
  switch (dtype) {
    case DType::kF32:
      return from_field(t, dtype, std::move(shape), count, t.float_data());
    case DType::kF64:
      return from_field(t, dtype, std::move(shape), count, t.double_data());
    case DType::kI64:
      return from_field(t, dtype, std::move(shape), count, t.int64_data());
    case DType::kU32:
    case DType::kU64:
      return from_field(t, dtype, std::move(shape), count, t.uint64_data());
    default:
      return from_field(t, dtype, std::move(shape), count, t.int32_data());
  }
}

Result<AnyTensor> read_narrow(const tessera_onnx::TensorProto& tensor, const NarrowType& type,
                              TensorFiles& files, Reading reading) {
  const Shape shape(tensor.dims().begin(), tensor.dims().end());
  const auto count = checked_elements(shape, type.wide);
  if (!count.ok()) return invalid(tensor, count.error().message);
  std::string fields;  // int32_data holds one byte each
  TESSERA_TRY(const TensorBytes from, files.bytes(tensor));
  std::string_view bytes = from.bytes;
  if (tensor.data_location() != 1 && bytes.empty()) {
    for (const std::int32_t v : tensor.int32_data()) fields.push_back(static_cast<char>(v));
    bytes = fields;
  }
  if (bytes.size() != packed_bytes(type, *count)) {
    return invalid(tensor, fmt::format("{} bytes for shape {} of {}", bytes.size(), to_text(shape),
                                       type.name));
  }
  if (reading == Reading::kOutline && bytes.size() > kOutlineBytes) {
    return AnyTensor(ForeignTensor{type.name});
  }
  return AnyTensor(ForeignTensor{type.name, widen(type, shape, bytes)});
}

}  // namespace

std::string element_type_name(int onnx_type) {
  if (onnx_type < 0 || onnx_type >= static_cast<int>(kTypeNames.size())) {
    return fmt::format("type {}", onnx_type);
  }
  return kTypeNames[static_cast<std::size_t>(onnx_type)];
}

int element_type_number(const std::string& name) {
  for (std::size_t i = 1; i < kTypeNames.size(); ++i) {
    if (name == kTypeNames[i]) return static_cast<int>(i);
  }
  return 0;
}

int element_type_number(DType dtype) { return element_type_number(std::string(to_text(dtype))); }

Result<TensorBytes> TensorFiles::bytes(const tessera_onnx::TensorProto& tensor) {
  if (tensor.data_location() == 1) return external(tensor);
  if (!tensor.has_raw_place()) return TensorBytes{tensor.raw_data(), nullptr};
  const auto begin = static_cast<std::uint64_t>(tensor.raw_place().begin());
  const auto end = static_cast<std::uint64_t>(tensor.raw_place().end());
  if (begin > end || end > model_.bytes.size()) return invalid(tensor, "raw data out of place");
  return TensorBytes{model_.bytes.substr(begin, end - begin), model_.owner};
}

Result<TensorBytes> TensorFiles::external(const tessera_onnx::TensorProto& tensor) {
  std::string location;
  std::uint64_t offset = 0;
  std::uint64_t length = UINT64_MAX;  // to the end
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location") location = entry.value();
    if (entry.key() == "offset") {
      TESSERA_TRY(offset, parse_size(tensor, entry));
    } else if (entry.key() == "length") {
      TESSERA_TRY(length, parse_size(tensor, entry));
    }
  }
  if (folder_.empty()) return invalid(tensor, "external data, but the model is not a file");
  if (leaves_folder(location)) {
    return invalid(tensor,
                   fmt::format("external data '{}' is not inside the model's folder", location));
  }
  auto found = files_.find(location);
  if (found == files_.end()) {
    auto file = MappedFile::open_inside(folder_, location);
    if (!file.ok()) return invalid(tensor, "external data: " + file.error().message);
    auto shared = std::make_shared<const MappedFile>(std::move(file).value());
    found = files_.emplace(location, std::move(shared)).first;
  }
  const std::string_view all = found->second->bytes();
  if (offset > all.size() || (length != UINT64_MAX && length > all.size() - offset)) {
    return invalid(tensor, fmt::format("external data '{}' ends at byte {}", location, all.size()));
  }
  const std::size_t most = length == UINT64_MAX ? std::string_view::npos : length;
  return TensorBytes{all.substr(offset, most), found->second};
}

std::vector<std::string> TensorFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, file] : files_) out.push_back(name);
  return out;
}

Result<AnyTensor> read_tensor(const tessera_onnx::TensorProto& tensor, TensorFiles& files,
                              Reading reading) {
  if (tensor.has_segment()) {
    return make_error(ErrorCode::kUnsupported, "tensor '{}': stored in segments", tensor.name());
  }
  const std::string type = element_type_name(tensor.data_type());
  const auto dtype = dtype_from_text(type);
  if (const NarrowType* narrow = find_narrow_type(type)) {
    return read_narrow(tensor, *narrow, files, reading);
  }
  if (!dtype) return AnyTensor(ForeignTensor{type});
  Shape shape(tensor.dims().begin(), tensor.dims().end());
  const auto count = checked_elements(shape, *dtype);
  if (!count.ok()) return invalid(tensor, count.error().message);
  TESSERA_TRY(const TensorBytes from, files.bytes(tensor));
  // Some writers leave raw_data empty and fill the typed field.
  const bool raw = !from.bytes.empty() || (tensor.has_raw_data() && *count == 0);
  if (tensor.data_location() == 1 || raw) {
    TESSERA_TRY(HostTensor out,
                from_bytes(tensor, *dtype, std::move(shape), *count, from, reading));
    return AnyTensor(std::move(out));
  }
  TESSERA_TRY(HostTensor out, from_typed_fields(tensor, *dtype, std::move(shape), *count));
  return AnyTensor(std::move(out));
}

Result<AnyTensor> read_sparse(const tessera_onnx::SparseTensorProto& sparse, TensorFiles& files) {
  TESSERA_TRY(const AnyTensor values_any, read_tensor(sparse.values(), files));
  if (const auto* foreign = std::get_if<ForeignTensor>(&values_any)) {
    return AnyTensor(ForeignTensor{foreign->type});
  }
  const auto& values = std::get<HostTensor>(values_any);
  const Shape shape(sparse.dims().begin(), sparse.dims().end());
  const auto count = checked_elements(shape, values.dtype());
  if (!count.ok()) return invalid(sparse.values(), count.error().message);
  if (*count * size_bytes(values.dtype()) > kMaxDenseBytes) {
    return make_error(ErrorCode::kUnsupported, "sparse tensor '{}': {} is too large to be dense",
                      sparse.values().name(), to_text(shape));
  }
  TESSERA_TRY(const AnyTensor indices_any, read_tensor(sparse.indices(), files));
  const auto* indices = std::get_if<HostTensor>(&indices_any);
  const auto rank = static_cast<std::int64_t>(shape.size());
  const bool by_axis = indices != nullptr && indices->shape() == Shape{values.size(), rank};
  const bool linear = indices != nullptr && indices->shape() == Shape{values.size()};
  if (values.shape().size() != 1 || !(by_axis || linear) || indices->dtype() != DType::kI64) {
    return invalid(sparse.values(), "indices of a sparse tensor must be i64 [n] or [n, rank]");
  }
  HostTensor out(values.dtype(), shape);
  const auto width = static_cast<std::size_t>(size_bytes(values.dtype()));
  for (std::int64_t i = 0; i < values.size(); ++i) {
    std::int64_t at = linear ? indices->get_int(i) : 0;
    for (std::int64_t d = 0; by_axis && d < rank; ++d) {
      const std::int64_t index = indices->get_int(i * rank + d);
      const std::int64_t size = shape[static_cast<std::size_t>(d)];
      if (index < 0 || index >= size) return invalid(sparse.values(), "sparse index out of range");
      at = at * size + index;
    }
    if (at < 0 || at >= *count) return invalid(sparse.values(), "sparse index out of range");
    std::memcpy(out.as<std::byte>() + static_cast<std::size_t>(at) * width,
                values.as<std::byte>() + static_cast<std::size_t>(i) * width, width);
  }
  return AnyTensor(std::move(out));
}

void write_tensor(const HostTensor& tensor, const std::string& name,
                  tessera_onnx::TensorProto& to) {
  to.set_name(name);
  to.set_data_type(element_type_number(tensor.dtype()));
  for (const std::int64_t d : tensor.shape()) to.add_dims(d);
  to.set_raw_data(tensor.data(), tensor.bytes());
}

}  // namespace tessera::onnx
