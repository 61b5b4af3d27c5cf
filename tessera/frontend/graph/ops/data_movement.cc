#include "tessera/frontend/graph/ops/data_movement.h"

#include <algorithm>
#include <cstring>

#include "tessera/lang/te/ops/window.h"

namespace tessera::graph {
namespace {

// Of both loops of a transposing copy: 64 lines of 64 bytes stay in the first-level cache.
constexpr std::int64_t kBlock = 64;

template <class T>
void copy_row(const T* src, T* dst, const StridedDim& d) {
  if (d.src == 1 && d.dst == 1) {
    std::memcpy(dst, src, static_cast<std::size_t>(d.size) * sizeof(T));
    return;
  }
  for (std::int64_t i = 0; i < d.size; ++i) dst[i * d.dst] = src[i * d.src];
}

template <class T>
void copy_plane(const T* src, T* dst, const StridedDim& a, const StridedDim& b) {
  for (std::int64_t i0 = 0; i0 < a.size; i0 += kBlock) {
    const std::int64_t i1 = std::min(a.size, i0 + kBlock);
    for (std::int64_t j0 = 0; j0 < b.size; j0 += kBlock) {
      const std::int64_t columns = std::min(b.size, j0 + kBlock) - j0;
      for (std::int64_t i = i0; i < i1; ++i) {
        copy_row(src + i * a.src + j0 * b.src, dst + i * a.dst + j0 * b.dst,
                 {columns, b.src, b.dst});
      }
    }
  }
}

template <class T>
void copy_nest(const T* src, T* dst, const StridedDim* dims, std::size_t count) {
  if (count == 0) {
    *dst = *src;
  } else if (count == 1) {
    copy_row(src, dst, dims[0]);
  } else if (count == 2 && dims[1].src != 1) {
    copy_plane(src, dst, dims[0], dims[1]);
  } else {
    for (std::int64_t i = 0; i < dims[0].size; ++i)
      copy_nest(src + i * dims[0].src, dst + i * dims[0].dst, dims + 1, count - 1);
  }
}

// Joins dimensions that are one run in both tensors, and puts the one along which the source is
// dense next to the last.
std::vector<StridedDim> arrange_loops(const std::vector<StridedDim>& dims) {
  std::vector<StridedDim> loops;
  for (const StridedDim& d : dims) {
    if (d.size == 1) continue;
    if (!loops.empty() && loops.back().src == d.src * d.size &&
        loops.back().dst == d.dst * d.size) {
      loops.back() = {loops.back().size * d.size, d.src, d.dst};
    } else {
      loops.push_back(d);
    }
  }
  if (loops.size() < 3 || loops.back().src == 1) return loops;
  const auto dense =
      std::find_if(loops.begin(), loops.end(), [](const StridedDim& d) { return d.src == 1; });
  if (dense != loops.end()) std::rotate(dense, dense + 1, loops.end() - 1);
  return loops;
}

// Smallest and largest value; the whole range of indices when the tensor is not known.
std::pair<std::int64_t, std::int64_t> value_range(const HostTensor* indices) {
  if (indices == nullptr || indices->size() == 0) return {INT64_MIN, INT64_MAX};
  std::int64_t lo = indices->get_int(0), hi = lo;
  for (std::int64_t i = 1; i < indices->size(); ++i) {
    lo = std::min(lo, indices->get_int(i));
    hi = std::max(hi, indices->get_int(i));
  }
  return {lo, hi};
}

const HostTensor* known(const NodeView& node, std::size_t input) {
  return input < node.constants.size() ? node.constants[input] : nullptr;
}

}  // namespace

Result<std::vector<TensorType>> single_type(DType dtype, Shape shape) {
  TESSERA_DO([&]() -> Result<void> {
    const auto total = checked_elements(shape, dtype);
    return total.ok() ? Result<void>() : Result<void>(total.error());
  }());
  return std::vector<TensorType>{{dtype, std::move(shape)}};
}

Shape row_major_strides(const Shape& shape) {
  Shape strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

std::int64_t span_size(const Shape& shape, std::size_t first, std::size_t last) {
  std::int64_t total = 1;
  for (std::size_t d = first; d < last; ++d) total *= shape[d];
  return total;
}

te::Indices reshape_indices(const Shape& from, const Shape& to, const te::Indices& i) {
  te::Indices result(from.size(), ir::int_imm(0));
  std::size_t a = 0, b = 0;
  while (true) {
    while (a < from.size() && from[a] == 1) ++a;
    while (b < to.size() && to[b] == 1) ++b;
    if (a == from.size() || b == to.size()) return result;
    // The shortest runs of dimensions with one product: indices of other runs do not mix.
    const std::size_t a0 = a, b0 = b;
    std::int64_t in = from[a++], out = to[b++];
    while (in != out) {
      if (in < out) {
        in *= from[a++];
      } else {
        out *= to[b++];
      }
    }
    ir::Expr flat;
    for (std::size_t d = b0; d < b; ++d) {
      if (to[d] == 1) continue;
      const ir::Expr term = te::scaled(i[d], span_size(to, d + 1, b));
      flat = flat ? flat + term : term;
    }
    std::int64_t above = 1;
    for (std::size_t d = a0; d < a; above *= from[d++]) {
      if (from[d] == 1) continue;
      const std::int64_t below = span_size(from, d + 1, a);
      ir::Expr index = below == 1 ? flat : ir::floor_div(flat, ir::int_imm(below));
      if (above != 1) index = ir::floor_mod(index, ir::int_imm(from[d]));
      result[d] = index;
    }
  }
}

ir::Expr safe_index(const NodeView& node, std::size_t input, const ir::Expr& raw, std::int64_t n) {
  const auto [lo, hi] = value_range(known(node, input));
  ir::Expr index = raw.dtype() == DType::kI64 ? raw : ir::cast(DType::kI64, raw);
  if (lo < 0) index = ir::select(ir::lt(index, ir::int_imm(0)), index + n, index);
  if (lo < -n) index = ir::max(index, ir::int_imm(0));
  if (hi >= n) index = ir::min(index, ir::int_imm(n - 1));
  return index;
}

std::int64_t safe_index(std::int64_t raw, std::int64_t n) {
  return std::clamp<std::int64_t>(raw < 0 ? raw + n : raw, 0, n - 1);
}

Result<void> check_indices(const NodeView& node, std::size_t input, std::int64_t n) {
  const DType t = node.dtype(input);
  if (t != DType::kI64 && t != DType::kI32)
    return bad_operand("indices are {}, not i32 or i64", to_text(t));
  const HostTensor* values = known(node, input);
  if (elements(node.shape(input)) == 0) return {};
  if (n == 0) return bad_operand("indices into a dimension of size 0");
  if (values == nullptr) return {};
  const auto [lo, hi] = value_range(values);
  if (lo < -n || hi >= n)
    return bad_operand("index {} is outside a dimension of size {}", lo < -n ? lo : hi, n);
  return {};
}

void copy_strided(const void* src, void* dst, const std::vector<StridedDim>& dims,
                  int element_bytes) {
  for (const StridedDim& d : dims) {
    if (d.size == 0) return;
  }
  const std::vector<StridedDim> loops = arrange_loops(dims);
  const auto run = [&]<class T>(T) {
    copy_nest(static_cast<const T*>(src), static_cast<T*>(dst), loops.data(), loops.size());
  };
  switch (element_bytes) {
    case 1:
      return run(std::uint8_t{});
    case 2:
      return run(std::uint16_t{});
    case 4:
      return run(std::uint32_t{});
    default:
      return run(std::uint64_t{});
  }
}

HostTensor take(const HostTensor& x, std::size_t axis, const std::vector<std::int64_t>& indices) {
  Shape shape = x.shape();
  const std::int64_t outer = span_size(shape, 0, axis), n = shape[axis];
  const std::size_t row = static_cast<std::size_t>(span_size(shape, axis + 1, shape.size())) *
                          static_cast<std::size_t>(size_bytes(x.dtype()));
  shape[axis] = static_cast<std::int64_t>(indices.size());
  HostTensor out(x.dtype(), shape);
  if (out.size() == 0) return out;
  std::byte* to = out.as<std::byte>();
  for (std::int64_t o = 0; o < outer; ++o) {
    const std::byte* slab = x.as<std::byte>() + static_cast<std::size_t>(o * n) * row;
    for (const std::int64_t i : indices) {
      std::memcpy(to, slab + static_cast<std::size_t>(i) * row, row);
      to += row;
    }
  }
  return out;
}

}  // namespace tessera::graph
