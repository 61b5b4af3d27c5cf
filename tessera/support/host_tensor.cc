#include "tessera/support/host_tensor.h"

#include <cmath>
#include <cstdlib>
#include <cstring>

#include <fmt/ranges.h>
#include <sys/mman.h>

#include "tessera/support/float_format.h"

namespace tessera {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;
constexpr std::size_t kAlignment = 64;
// Tensors of this size come from the system, whose pages are zero already, in huge pages where it
// has them: filling gigabytes of weights is otherwise mostly page faults.
constexpr std::size_t kLarge = std::size_t{2} << 20, kHugePage = std::size_t{2} << 20;

// Memory of a tensor's own, to tell it from that of others.
struct Unmap {
  void* base;
  std::size_t bytes;
  void operator()(std::byte*) const { ::munmap(base, bytes); }
};
struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

std::shared_ptr<std::byte> map_zeros(std::size_t bytes) {
  const std::size_t mapped = bytes + kHugePage;
  void* base = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TESSERA_CHECK(base != MAP_FAILED, "out of memory for a tensor of {} bytes", bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::uintptr_t aligned = (address + kHugePage - 1) / kHugePage * kHugePage;
  ::madvise(reinterpret_cast<void*>(aligned), bytes, MADV_HUGEPAGE);
  return {reinterpret_cast<std::byte*>(aligned), Unmap{base, mapped}};
}

}  // namespace

Result<std::int64_t> checked_elements(const Shape& shape, DType dtype) {
  std::int64_t total = 1;
  for (const std::int64_t d : shape) {
    if (d < 0)
      return make_error(ErrorCode::kInvalidArgument, "shape {}: negative dimension",
                        to_text(shape));
    if (d != 0 && total > kMaxBytes / d) {
      return make_error(ErrorCode::kInvalidArgument, "shape {}: too large", to_text(shape));
    }
    total *= d;
  }
  if (total > kMaxBytes / size_bytes(dtype)) {
    return make_error(ErrorCode::kInvalidArgument, "shape {}: too large", to_text(shape));
  }
  return total;
}

std::int64_t elements(const Shape& shape) {
  std::int64_t total = 1;
  for (const std::int64_t d : shape) total *= d;
  return total;
}

std::string to_text(const Shape& shape) {
  return shape.empty() ? "scalar" : fmt::format("{}", fmt::join(shape, "x"));
}

HostTensor::HostTensor(DType dtype, Shape shape) : dtype_(dtype), shape_(std::move(shape)) {
  const std::size_t rounded =
      (bytes() + kAlignment) / kAlignment * kAlignment;  // at least one line, also when empty
  if (rounded >= kLarge) {
    data_ = map_zeros(rounded);
    return;
  }
  void* memory = std::aligned_alloc(kAlignment, rounded);
  TESSERA_CHECK(memory != nullptr, "out of memory for a tensor of {} bytes", rounded);
  std::memset(memory, 0, rounded);
  data_ = std::shared_ptr<std::byte>(static_cast<std::byte*>(memory), Free());
}

HostTensor HostTensor::view(DType dtype, Shape shape, std::shared_ptr<const void> owner,
                            const void* bytes) {
  HostTensor out;
  out.dtype_ = dtype;
  out.shape_ = std::move(shape);
  auto* data = static_cast<std::byte*>(const_cast<void*>(bytes));
  out.data_ = std::shared_ptr<std::byte>(std::move(owner), data);
  return out;
}

bool HostTensor::is_view() const {
  return data_ && !std::get_deleter<Unmap>(data_) && !std::get_deleter<Free>(data_);
}

double HostTensor::get_float(std::int64_t i) const {
  if (!is_float(dtype_)) return static_cast<double>(get_int(i));
  switch (size_bytes(dtype_)) {
    case 8:
      return as<double>()[i];
    case 4:
      return as<float>()[i];
    case 2:
      return decode(float_format(dtype_), as<std::uint16_t>()[i]);
    default:
      return decode(float_format(dtype_), as<std::uint8_t>()[i]);
  }
}

std::int64_t HostTensor::get_int(std::int64_t i) const {
  switch (dtype_) {
    case DType::kBool:
      return as<std::uint8_t>()[i] != 0 ? 1 : 0;
    case DType::kI8:
      return as<std::int8_t>()[i];
    case DType::kU8:
      return as<std::uint8_t>()[i];
    case DType::kI16:
      return as<std::int16_t>()[i];
    case DType::kU16:
      return as<std::uint16_t>()[i];
    case DType::kI32:
      return as<std::int32_t>()[i];
    case DType::kU32:
      return as<std::uint32_t>()[i];
    case DType::kI64:
      return as<std::int64_t>()[i];
    case DType::kU64:
      return static_cast<std::int64_t>(as<std::uint64_t>()[i]);
    default:
      return static_cast<std::int64_t>(get_float(i));
  }
}

void HostTensor::set_float(std::int64_t i, double v) {
  if (!is_float(dtype_)) return set_int(i, static_cast<std::int64_t>(v));
  const auto narrow = static_cast<float>(v);
  switch (size_bytes(dtype_)) {
    case 8:
      as<double>()[i] = v;
      break;
    case 4:
      as<float>()[i] = narrow;
      break;
    case 2:
      as<std::uint16_t>()[i] = static_cast<std::uint16_t>(encode(float_format(dtype_), narrow));
      break;
    default:
      as<std::uint8_t>()[i] = static_cast<std::uint8_t>(encode(float_format(dtype_), narrow));
      break;
  }
}

void HostTensor::set_int(std::int64_t i, std::int64_t v) {
  const std::int64_t w = is_float(dtype_) ? v : wrap_int(dtype_, v);
  switch (dtype_) {
    case DType::kBool:
    case DType::kU8:
      as<std::uint8_t>()[i] = static_cast<std::uint8_t>(w);
      break;
    case DType::kI8:
      as<std::int8_t>()[i] = static_cast<std::int8_t>(w);
      break;
    case DType::kI16:
      as<std::int16_t>()[i] = static_cast<std::int16_t>(w);
      break;
    case DType::kU16:
      as<std::uint16_t>()[i] = static_cast<std::uint16_t>(w);
      break;
    case DType::kI32:
      as<std::int32_t>()[i] = static_cast<std::int32_t>(w);
      break;
    case DType::kU32:
      as<std::uint32_t>()[i] = static_cast<std::uint32_t>(w);
      break;
    case DType::kI64:
      as<std::int64_t>()[i] = w;
      break;
    case DType::kU64:
      as<std::uint64_t>()[i] = static_cast<std::uint64_t>(w);
      break;
    default:
      set_float(i, static_cast<double>(v));
      break;
  }
}

HostTensor HostTensor::clone() const {
  HostTensor copy(dtype_, shape_);
  std::memcpy(copy.data(), data(), bytes());
  return copy;
}

HostTensor HostTensor::reshaped(Shape shape) const {
  TESSERA_CHECK(elements(shape) == size(), "{} as {}", to_text(shape_), to_text(shape));
  HostTensor out = *this;
  out.shape_ = std::move(shape);
  return out;
}

HostTensor random_tensor(DType dtype, const Shape& shape, Rng& rng) {
  HostTensor t(dtype, shape);
  const std::int64_t n = t.size();
  if (dtype == DType::kF32) {  // most are
    auto* data = t.as<float>();
    for (std::int64_t i = 0; i < n; ++i) data[i] = static_cast<float>(2 * rng.uniform() - 1);
    return t;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (is_float(dtype)) {
      t.set_float(i, 2 * rng.uniform() - 1);
    } else if (dtype == DType::kBool) {
      t.set_int(i, rng.below(2));
    } else {
      t.set_int(i, is_signed_int(dtype) ? rng.between(-9, 9) : rng.between(0, 18));
    }
  }
  return t;
}

}  // namespace tessera
