#include "tessera/app/capi/dl_tensor.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace tessera::capi {
namespace {

bool is_on(const tsr_dl_tensor& t, target::Kind device) {
  const std::int32_t type = t.device.device_type;
  const target::KindRow& row = target::row_of(device);
  return type == row.dlpack || type == row.dlpack_managed;
}

// Calls visit(element index, pointer into `t`) for every element in row-major order.
template <class Visit>
void for_each_element(const tsr_dl_tensor& t, const Shape& shape, std::int64_t element_bytes,
                      Visit visit) {
  Shape index(shape.size(), 0);
  std::int64_t offset = 0;
  const std::int64_t count = elements(shape);
  for (std::int64_t i = 0; i < count; ++i) {
    visit(i, data_of(t) + offset * element_bytes);
    for (std::size_t d = shape.size(); d-- > 0;) {
      offset += t.strides[d];
      if (++index[d] < shape[d]) break;
      offset -= t.strides[d] * shape[d];
      index[d] = 0;
    }
  }
}

std::string type_text(const tsr_dl_type& type) {
  for (int i = 0; i < kDTypes; ++i) {
    const auto dtype = static_cast<DType>(i);
    const tsr_dl_type known = dl_type(dtype);
    if (type.code == known.code && type.bits == known.bits && type.lanes == known.lanes)
      return to_text(dtype);
  }
  return fmt::format("DLPack type {}/{}/{}", type.code, type.bits, type.lanes);
}

struct Managed {
  HostTensor tensor;
  Shape shape;
  tsr_dl_managed_tensor handle;
};

}  // namespace

bool on_host(const tsr_dl_tensor& t) {
  return t.device.device_type == TSR_DL_CPU || t.device.device_type == TSR_DL_CUDA_HOST;
}

std::byte* data_of(const tsr_dl_tensor& t) {
  return static_cast<std::byte*>(t.data) + t.byte_offset;
}

bool is_dense(const tsr_dl_tensor& t, const Shape& shape) {
  if (!t.strides) return true;
  std::int64_t stride = 1;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] != 1 && t.strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

tsr_dl_type dl_type(DType dtype) {
  const auto bits = static_cast<std::uint8_t>(8 * size_bytes(dtype));
  if (dtype == DType::kBool) return {6, bits, 1};
  if (dtype == DType::kBF16) return {4, bits, 1};
  if (is_float(dtype)) return {2, bits, 1};
  return {static_cast<std::uint8_t>(is_signed_int(dtype) ? 0 : 1), bits, 1};
}

bool fits(const tsr_dl_tensor& t, DType dtype, const Shape& shape, target::Kind device) {
  const tsr_dl_type want = dl_type(dtype);
  return (on_host(t) || (is_on(t, device) && is_dense(t, shape))) && t.dtype.code == want.code &&
         t.dtype.bits == want.bits && t.dtype.lanes == 1 &&
         t.ndim == static_cast<std::int32_t>(shape.size()) &&
         (t.ndim == 0 || (t.shape && std::equal(shape.begin(), shape.end(), t.shape))) &&
         (t.data || elements(shape) == 0);
}

Result<void> check_tensor(const tsr_dl_tensor& t, DType dtype, const Shape& shape,
                          target::Kind device, const std::string& name) {
  const tsr_dl_type want = dl_type(dtype);
  if (!on_host(t) && !is_on(t, device)) {
    return make_error(
        ErrorCode::kInvalidArgument, "{}: DLPack device {} is neither the CPU{}", name,
        t.device.device_type,
        device == target::Kind::kCpu
            ? " nor memory that CUDA pinned"
            : fmt::format(" nor {}, where the model computes", target::to_text(device)));
  }
  if (t.dtype.code != want.code || t.dtype.bits != want.bits || t.dtype.lanes != 1) {
    return make_error(ErrorCode::kInvalidArgument, "{} must be {}, not {}", name, to_text(dtype),
                      type_text(t.dtype));
  }
  const bool same = t.ndim >= 0 && static_cast<std::size_t>(t.ndim) == shape.size() &&
                    (t.ndim == 0 || (t.shape && Shape(t.shape, t.shape + t.ndim) == shape));
  if (!same) {
    const std::string given =
        t.ndim >= 0 && t.ndim <= 64 && t.shape ? to_text(Shape(t.shape, t.shape + t.ndim)) : "?";
    return make_error(ErrorCode::kInvalidArgument, "{} must have shape {}, not {}", name,
                      to_text(shape), given);
  }
  if (!t.data && elements(shape) > 0) {
    return make_error(ErrorCode::kInvalidArgument, "{} has no data", name);
  }
  if (!on_host(t) && !is_dense(t, shape)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{} is on the device: it must be row-major without gaps", name);
  }
  return {};
}

void gather(const tsr_dl_tensor& t, DType dtype, const Shape& shape, void* to) {
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  const std::size_t bytes = static_cast<std::size_t>(elements(shape)) * size;
  if (bytes == 0) return;
  if (is_dense(t, shape)) {
    std::memcpy(to, data_of(t), bytes);
    return;
  }
  auto* out = static_cast<std::byte*>(to);
  for_each_element(t, shape, size_bytes(dtype), [&](std::int64_t i, const std::byte* from) {
    std::memcpy(out + static_cast<std::size_t>(i) * size, from, size);
  });
}

void scatter(const void* from, DType dtype, const Shape& shape, const tsr_dl_tensor& t) {
  const auto size = static_cast<std::size_t>(size_bytes(dtype));
  const std::size_t bytes = static_cast<std::size_t>(elements(shape)) * size;
  if (bytes == 0) return;
  if (is_dense(t, shape)) {
    std::memcpy(data_of(t), from, bytes);
    return;
  }
  const auto* values = static_cast<const std::byte*>(from);
  for_each_element(t, shape, size_bytes(dtype), [&](std::int64_t i, std::byte* to) {
    std::memcpy(to, values + static_cast<std::size_t>(i) * size, size);
  });
}

HostTensor read_tensor(const tsr_dl_tensor& t, DType dtype, const Shape& shape) {
  HostTensor out(dtype, shape);
  gather(t, dtype, shape, out.data());
  return out;
}

tsr_dl_managed_tensor* make_managed(HostTensor tensor) {
  auto owner = std::make_unique<Managed>();
  owner->shape = tensor.shape();
  const tsr_dl_type type = dl_type(tensor.dtype());
  owner->tensor = std::move(tensor);
  owner->handle.dl_tensor = {owner->tensor.data(),
                             {TSR_DL_CPU, 0},
                             static_cast<std::int32_t>(owner->shape.size()),
                             type,
                             owner->shape.data(),
                             nullptr,
                             0};
  owner->handle.manager_ctx = owner.get();
  owner->handle.deleter = [](tsr_dl_managed_tensor* self) {
    delete static_cast<Managed*>(self->manager_ctx);
  };
  return &owner.release()->handle;
}

}  // namespace tessera::capi
