// Operators whose result follows from attributes or shapes alone, and those that pass through.
#include <algorithm>
#include <cmath>

#include "tessera/frontend/onnx/ops/element_type.h"
#include "tessera/frontend/onnx/ops/ops.h"

namespace tessera::onnx {
namespace {

using Values = Result<std::vector<ValueId>>;

// Larger fills become a node that expands one element.
constexpr std::int64_t kMaxStoredFill = std::int64_t{1} << 20;

HostTensor list_tensor(const std::vector<float>& values) {
  HostTensor t(DType::kF32, {static_cast<std::int64_t>(values.size())});
  std::copy(values.begin(), values.end(), t.as<float>());
  return t;
}

Values import_constant(Context& c) {
  for (const Attribute& a : c.node.attributes) {
    if (const auto* t = std::get_if<HostTensor>(&a.value)) return std::vector{c.b.constant(*t)};
    if (const auto* i = std::get_if<std::int64_t>(&a.value)) {
      HostTensor t(DType::kI64, {});
      t.set_int(0, *i);
      return std::vector{c.b.constant(std::move(t))};
    }
    if (const auto* f = std::get_if<float>(&a.value)) {
      return std::vector{c.b.scalar(DType::kF32, double{*f})};
    }
    if (const auto* ints = std::get_if<std::vector<std::int64_t>>(&a.value)) {
      return std::vector{c.b.integers(*ints)};
    }
    if (const auto* floats = std::get_if<std::vector<float>>(&a.value)) {
      return std::vector{c.b.constant(list_tensor(*floats))};
    }
  }
  return make_error(ErrorCode::kInvalidArgument, "a constant without value");
}

// `element` (one element, any rank) repeated.
Result<ValueId> fill(Context& c, const HostTensor& element, const Shape& shape) {
  const DType dtype = element.dtype();
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, dtype));
  if (count * size_bytes(dtype) > kMaxStoredFill) {
    TESSERA_TRY(const ValueId scalar, c.b.reshape(c.b.constant(element), {}));
    return c.b.add("expand", {scalar}, {{"shape", shape}});
  }
  HostTensor t(dtype, shape);
  for (std::int64_t i = 0; i < count; ++i) {
    std::copy_n(element.as<std::byte>(), size_bytes(dtype),
                t.as<std::byte>() + i * size_bytes(dtype));
  }
  return c.b.constant(std::move(t));
}

Values import_constant_of_shape(Context& c) {
  TESSERA_TRY(const Shape shape, c.constant_integers(0, "shape"));
  HostTensor element(DType::kF32, {});
  if (c.has_attribute("value")) {
    TESSERA_TRY(element, c.tensor("value"));
  }
  if (element.size() != 1) {
    return make_error(ErrorCode::kInvalidArgument, "value has {} elements instead of one",
                      element.size());
  }
  TESSERA_TRY(const ValueId out, fill(c, element, shape));
  return std::vector{out};
}

Values import_shape(Context& c) {
  const std::int64_t rank = c.rank(0);
  std::int64_t start = 0, end = rank;
  if (c.version >= 15) {
    TESSERA_TRY(start, c.integer("start", 0));
    TESSERA_TRY(end, c.integer("end", rank));
  }
  const auto clamp = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  start = clamp(start);
  end = std::max(start, clamp(end));
  const Shape shape = c.shape(0);
  return std::vector{c.b.integers({shape.begin() + start, shape.begin() + end})};
}

Values import_size(Context& c) {
  HostTensor t(DType::kI64, {});
  t.set_int(0, elements(c.shape(0)));
  return std::vector{c.b.constant(std::move(t))};
}

Values import_identity(Context& c) { return std::vector{c.in(0)}; }

Result<HostTensor> range_scalar(Context& c, std::size_t i, const char* what) {
  TESSERA_TRY(const HostTensor* value, c.constant(i, what));
  if (value->size() != 1 || value->dtype() != c.dtype(0) || value->dtype() == DType::kBool) {
    return make_error(ErrorCode::kInvalidArgument, "{} must be one number of the type of start",
                      what);
  }
  return *value;
}

Result<std::int64_t> range_length(const HostTensor& start, const HostTensor& limit,
                                  const HostTensor& delta) {
  const double step = delta.get_float(0);
  const double length = std::ceil((limit.get_float(0) - start.get_float(0)) / step);
  if (step == 0 || !(length < 0x1p46)) {  // NaN included
    return make_error(ErrorCode::kInvalidArgument, "a range from {} to {} by {} has no length",
                      start.get_float(0), limit.get_float(0), step);
  }
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(std::max(length, 0.0)));
}

Values import_range(Context& c) {
  TESSERA_TRY(const HostTensor start, range_scalar(c, 0, "start"));
  TESSERA_TRY(const HostTensor limit, range_scalar(c, 1, "limit"));
  TESSERA_TRY(const HostTensor delta, range_scalar(c, 2, "delta"));
  TESSERA_TRY(const std::int64_t length, range_length(start, limit, delta));
  TESSERA_TRY(const std::int64_t count, checked_elements({length}, start.dtype()));
  if (count * size_bytes(start.dtype()) > (std::int64_t{1} << 28)) {
    return make_error(ErrorCode::kUnsupported, "a range of {} elements", count);
  }
  HostTensor t(start.dtype(), {length});
  for (std::int64_t i = 0; i < length; ++i) {
    if (is_float(t.dtype())) {
      t.set_float(i, start.get_float(0) + static_cast<double>(i) * delta.get_float(0));
    } else {
      const auto step =
          static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta.get_int(0));
      t.set_int(i, static_cast<std::int64_t>(static_cast<std::uint64_t>(start.get_int(0)) + step));
    }
  }
  return std::vector{c.b.constant(std::move(t))};
}

Values import_eye_like(Context& c) {
  const Shape shape = c.shape(0);
  if (shape.size() != 2) {
    return make_error(ErrorCode::kInvalidArgument, "an input of rank 2 is needed, not {}",
                      to_text(shape));
  }
  DType dtype = c.dtype(0);
  if (c.has_attribute("dtype")) {
    TESSERA_TRY(const std::int64_t number, c.integer("dtype"));
    TESSERA_TRY(dtype, dtype_of_number(number));
  }
  TESSERA_TRY(const std::int64_t k, c.integer("k", 0));
  TESSERA_TRY(const std::int64_t count, checked_elements(shape, dtype));
  if (count * size_bytes(dtype) > (std::int64_t{1} << 28)) {
    return make_error(ErrorCode::kUnsupported, "an identity of {}", to_text(shape));
  }
  HostTensor t(dtype, shape);
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    if (k < -shape[0] || k > shape[1]) break;
    const std::int64_t j = i + k;
    if (j >= 0 && j < shape[1]) t.set_int(i * shape[1] + j, 1);
  }
  return std::vector{c.b.constant(std::move(t))};
}

// Inference: the data passes, the mask says that nothing is dropped.
Values import_dropout(Context& c) {
  if (c.has(2)) {
    TESSERA_TRY(const HostTensor* training, c.constant(2, "training_mode"));
    const bool active = training->size() == 1 && training->get_int(0) != 0;
    double ratio = 0.5;
    if (c.has(1)) {
      TESSERA_TRY(const HostTensor* given, c.constant(1, "ratio"));
      if (given->size() == 1) ratio = given->get_float(0);
    }
    if (active && ratio != 0) {
      return make_error(ErrorCode::kUnsupported, "training mode draws random numbers");
    }
  }
  std::vector<ValueId> outputs{c.in(0)};
  if (c.wants(1)) {
    HostTensor one(c.version >= 10 ? DType::kBool : c.dtype(0), {});
    one.set_int(0, 1);
    TESSERA_TRY(const ValueId mask, fill(c, one, c.shape(0)));
    outputs.push_back(mask);
  }
  return outputs;
}

}  // namespace

std::vector<OnnxOp> constant_rows() {
  return {{"Constant", 1, 0, 0, import_constant},
          {"ConstantOfShape", 9, 1, 1, import_constant_of_shape},
          {"Dropout", 1, 1, 3, import_dropout},
          {"EyeLike", 9, 1, 1, import_eye_like},
          {"Identity", 1, 1, 1, import_identity, "", true, Widened::kMoved, true},
          {"Range", 11, 3, 3, import_range},
          {"Shape", 1, 1, 1, import_shape},
          {"Size", 1, 1, 1, import_size}};
}

}  // namespace tessera::onnx
