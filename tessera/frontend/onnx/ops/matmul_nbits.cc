// MatMulNBits: a product with weights of few bits, [columns, blocks, bytes of a block], and a scale
// and zero point for each block.
#include "tessera/frontend/onnx/ops/contract.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/formula.h"
#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

constexpr std::int64_t kBytesSuffice = 4;  // of accuracy_level

struct Blocks {
  std::int64_t depth = 0, columns = 0, bits = 4, size = 0;
  bool rounds = false;  // A may be rounded to bytes

  std::int64_t count() const { return ceil_div(depth, size); }
};

Result<Blocks> read_blocks(Context& c) {
  Blocks b;
  TESSERA_TRY(b.depth, c.integer("K"));
  TESSERA_TRY(b.columns, c.integer("N"));
  TESSERA_TRY(b.bits, c.integer("bits", 4));
  TESSERA_TRY(b.size, c.integer("block_size"));
  TESSERA_TRY(const std::int64_t prepacked, c.integer("weight_prepacked", 0));
  if (prepacked != 0) return make_error(ErrorCode::kUnsupported, "weight_prepacked={}", prepacked);
  TESSERA_TRY(const std::int64_t accuracy, c.integer("accuracy_level", 0));
  b.rounds = accuracy == kBytesSuffice;
  if (b.bits != 2 && b.bits != 4 && b.bits != 8)
    return make_error(ErrorCode::kUnsupported, "weights of {} bits", b.bits);
  if (b.depth < 1 || b.columns < 1 || b.size < 8 / b.bits || b.size % (8 / b.bits) != 0)
    return invalid("K={}, N={} in blocks of {}", b.depth, b.columns, b.size);
  TESSERA_TRY([[maybe_unused]] const std::int64_t fits,
              checked_elements({b.columns, b.depth}, DType::kU8));
  TESSERA_TRY([[maybe_unused]] const std::int64_t blocks_fit,
              checked_elements({b.columns, b.size}, DType::kU8));
  return b;
}

// `rows` of `columns` elements each, several in a byte, the first lowest; a row begins with a byte.
Result<HostTensor> unpack(const HostTensor& packed, std::int64_t rows, std::int64_t columns,
                          std::int64_t row_bytes, std::int64_t bits, std::string_view what) {
  if (packed.dtype() != DType::kU8)
    return make_error(ErrorCode::kUnsupported, "{} of {}", what, to_text(packed.dtype()));
  if (packed.size() != rows * row_bytes)
    return invalid("{} of {} bytes, {} needed", what, packed.size(), rows * row_bytes);
  const auto* bytes = packed.as<std::uint8_t>();
  HostTensor out(DType::kU8, {rows, columns});
  auto* elements = out.as<std::uint8_t>();
  const unsigned mask = (1U << bits) - 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const unsigned byte = bytes[r * row_bytes + i * bits / 8];
      elements[r * columns + i] = static_cast<std::uint8_t>((byte >> (i * bits % 8)) & mask);
    }
  }
  return out;
}

// One for each block: packed as the weights are, or floats.
Result<HostTensor> read_zeros(Context& c, const Blocks& b) {
  TESSERA_TRY(const HostTensor* zeros, c.constant(3, "zero_points"));
  if (!is_float(zeros->dtype()))
    return unpack(*zeros, b.columns, b.count(), ceil_div(b.count() * b.bits, 8), b.bits,
                  "zero_points");
  if (zeros->size() != b.columns * b.count())
    return invalid("zero_points {} for {} blocks", to_text(zeros->shape()), b.columns * b.count());
  return zeros->reshaped({b.columns, b.count()});
}

// What the elements of each block are moved by: a zero point, or an offset behind the scale.
struct Moved {
  HostTensor by;
  bool adds = false;
};

// A, B, scales, what blocks are moved by, order of the groups, bias.
Result<Values> stored_matmul(Context& c, const Blocks& b, Moved moved) {
  if (c.has(4)) return make_error(ErrorCode::kUnsupported, "groups in another order (g_idx)");
  if (c.rank(0) < 1 || c.shape(0).back() != b.depth)
    return invalid("A {} for K={}", to_text(c.shape(0)), b.depth);
  TESSERA_TRY(const HostTensor* packed, c.constant(1, "B"));
  TESSERA_TRY(HostTensor q,
              unpack(*packed, b.columns, b.depth, b.count() * b.size * b.bits / 8, b.bits, "B"));
  if (elements(c.shape(2)) != b.columns * b.count())
    return invalid("scales {} for {} blocks", to_text(c.shape(2)), b.columns * b.count());
  Formula f(c);
  const Term scale = f.reshape(f.in(2), {b.columns, b.count()});
  graph::Attrs attrs{{"axis", std::int64_t{1}},
                     {"group", b.size},
                     {"bits", b.bits},
                     {"to", std::string(tessera::to_text(c.dtype(0)))}};
  if (moved.adds) attrs.set("adds", std::int64_t{1});
  if (b.rounds) attrs.set("rounds", std::int64_t{1});
  const Term weights =
      f.op("dequantize", {f.constant(std::move(q)), scale, f.constant(std::move(moved.by))}, attrs);
  if (f.failed()) return f.error();
  TESSERA_TRY(ValueId turned, c.b.transpose(weights.id, {1, 0}));
  // A known product is computed here.
  if (c.b.constant_of(c.in(0)) != nullptr) {
    TESSERA_TRY(turned, c.b.unpacked(turned));
  }
  TESSERA_TRY(const ValueId y, matmul(c.b, c.in(0), turned));
  return f.result({c.has(5) ? f.value(y) + f.in(5) : f.value(y)});
}

Result<Values> import_matmul_nbits(Context& c) {
  TESSERA_TRY(const Blocks b, read_blocks(c));
  HostTensor zero(DType::kU8, {1, 1});
  zero.set_int(0, std::int64_t{1} << (b.bits - 1));
  if (c.has(3)) {
    TESSERA_TRY(zero, read_zeros(c, b));
  }
  return stored_matmul(c, b, {std::move(zero)});
}

// Elements are q * scale + offset, as in files of other kinds.
Result<Values> import_matmul_offset_nbits(Context& c) {
  TESSERA_TRY(const Blocks b, read_blocks(c));
  TESSERA_TRY(const HostTensor* offsets, c.constant(3, "offsets"));
  if (!is_float(offsets->dtype()) || offsets->size() != b.columns * b.count())
    return invalid("offsets {} of {} for {} blocks", to_text(offsets->shape()),
                   to_text(offsets->dtype()), b.columns * b.count());
  return stored_matmul(c, b, {offsets->reshaped({b.columns, b.count()}), true});
}

}  // namespace

std::vector<OnnxOp> stored_contrib_rows() {
  return {
      {"MatMulNBits", 1, 3, 6, import_matmul_nbits, kMicrosoft},
      {"MatMulOffsetNBits", 1, 4, 4, import_matmul_offset_nbits, kTessera},
  };
}

}  // namespace tessera::onnx
