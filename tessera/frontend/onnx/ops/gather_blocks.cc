// GatherBlockQuantized: slices of a table of integers that share scales and zero points in blocks.
// The table stays as narrow as it is; only what was gathered is widened.
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/ceil_div.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

enum Input : std::size_t { kData, kIndices, kScales, kZeros };

struct Table {
  std::int64_t bits = 4, block = 128, gathered = 0, blocked = 1;  // bits 8: one element in a byte
  bool bytes = false;                                             // u8, not a type of few bits
  Shape shape;                                                    // in elements
};

Result<Table> read_table(const Context& c) {
  Table t;
  const bool narrow = c.widened[kData] != 0;
  t.bytes = !narrow && c.dtype(kData) == DType::kU8;
  if (!t.bytes && (!narrow || !is_int(c.dtype(kData))))
    return make_error(ErrorCode::kUnsupported, "a table of {}", to_text(c.dtype(kData)));
  TESSERA_TRY(t.bits, c.integer("bits", 4));
  if (t.bits != 2 && t.bits != 4 && t.bits != 8)
    return make_error(ErrorCode::kUnsupported, "elements of {} bits", t.bits);
  if (!t.bytes) t.bits = 8;
  TESSERA_TRY(t.block, c.integer("block_size", 128));
  if (t.block < 1) return make_error(ErrorCode::kUnsupported, "blocks of {}", t.block);
  const std::int64_t rank = c.rank(kData);
  TESSERA_TRY(const std::int64_t gathered, c.integer("gather_axis", 0));
  TESSERA_TRY(const std::int64_t blocked, c.integer("quantize_axis", 1));
  TESSERA_TRY(t.gathered, c.axis(gathered, rank));
  TESSERA_TRY(t.blocked, c.axis(blocked, rank));
  if (t.gathered == t.blocked || (t.bits < 8 && t.gathered == rank - 1))
    return make_error(ErrorCode::kUnsupported, "gather_axis {} with quantize_axis {}", t.gathered,
                      t.blocked);
  t.shape = c.shape(kData);
  Shape scales = c.shape(kScales);
  if (scales.size() != t.shape.size())
    return invalid("scales {} for a table {}", to_text(scales), to_text(t.shape));
  t.shape.back() *= 8 / t.bits;
  Shape expected = t.shape;
  std::int64_t& blocks = expected[static_cast<std::size_t>(t.blocked)];
  blocks = ceil_div(blocks, t.block);
  if (scales != expected)
    return invalid("scales {} for a table {} in blocks of {}", to_text(scales), to_text(t.shape),
                   t.block);
  Shape zeros = expected;
  zeros.back() = ceil_div(zeros.back() * t.bits, 8);
  if (c.has(kZeros) && (c.shape(kZeros) != zeros || c.dtype(kZeros) != c.dtype(kData)))
    return invalid("zero_points {}, {} needed", to_text(c.shape(kZeros)), to_text(zeros));
  return t;
}

class BlockGather {
 public:
  BlockGather(Formula& f, Context& c, const Table& t) : f_(f), c_(c), t_(t) {
    result_axis_ = t.blocked < t.gathered ? t.blocked : t.blocked - 1 + c.rank(kIndices);
  }

  Term run() {
    const DType to = c_.dtype(kScales), compute = compute_type(to);
    indices_ = f_.in(kIndices);
    const bool known = c_.b.constant_of(c_.in(kIndices)) != nullptr;
    const Term fits = known ? Term{} : inside();
    if (!known) indices_ = where(fits, f_.cast(indices_, DType::kI64), 0);
    const Term q = f_.cast(elements_of(kData, t_.shape.back()), compute);
    Term y = (q - zero(compute)) * f_.cast(by_block(rows(kScales)), compute);
    if (!known && !f_.failed()) {
      Shape spread = c_.shape(kIndices);
      spread.resize(f_.shape(y).size() - static_cast<std::size_t>(t_.gathered), 1);
      y = where(f_.reshape(fits, spread), y, 0);
    }
    return f_.cast(y, to);
  }

 private:
  // Which indices are of the table; results of others are zero.
  Term inside() {
    const auto size = static_cast<double>(t_.shape[static_cast<std::size_t>(t_.gathered)]);
    const Term i = f_.cast(indices_, DType::kI64);
    return call("and", call("le", f_.number(DType::kI64, -size), i),
                call("lt", i, f_.number(DType::kI64, size)));
  }
  Term rows(std::size_t input) {
    return f_.op("gather", {f_.in(input), indices_}, {{"axis", t_.gathered}});
  }
  // Gathered rows of `input` as `count` elements each.
  Term elements_of(std::size_t input, std::int64_t count) {
    Term x = rows(input);
    if (t_.bits == 8 || f_.failed()) return x;
    const std::int64_t in_byte = 8 / t_.bits;
    HostTensor shifts(DType::kU8, {in_byte});
    for (std::int64_t i = 0; i < in_byte; ++i) shifts.set_int(i, i * t_.bits);
    Shape packed = f_.shape(x), wide = packed;
    packed.push_back(1);
    wide.back() *= in_byte;
    const Term moved = call("shr", f_.reshape(x, packed), f_.constant(std::move(shifts)));
    const Term each = call("and", moved, static_cast<double>((1 << t_.bits) - 1));
    return slice(f_, f_.reshape(each, wide), wide.size() - 1, 0, count);
  }
  // Numbers of blocks as numbers of elements.
  Term by_block(Term x) {
    const std::int64_t size = t_.shape[static_cast<std::size_t>(t_.blocked)];
    HostTensor blocks(DType::kI64, {size});
    for (std::int64_t i = 0; i < size; ++i) blocks.set_int(i, i / t_.block);
    return f_.op("gather", {x, f_.constant(std::move(blocks))}, {{"axis", result_axis_}});
  }
  Term zero(DType t) {
    if (c_.has(kZeros)) {
      return f_.cast(by_block(elements_of(kZeros, c_.shape(kScales).back())), t);
    }
    return f_.number(t, t_.bytes ? static_cast<double>(1 << (t_.bits - 1)) : 0);
  }
  Formula& f_;
  Context& c_;
  const Table& t_;
  Term indices_;
  std::int64_t result_axis_ = 0;
};

Result<std::vector<ValueId>> import_gather_blocks(Context& c) {
  TESSERA_TRY(const Table t, read_table(c));
  Formula f(c);
  return f.result({BlockGather(f, c, t).run()});
}

}  // namespace

std::vector<OnnxOp> gather_block_rows() {
  return {{"GatherBlockQuantized", 1, 3, 4, import_gather_blocks, kMicrosoft, false,
           Widened::kNumbers}};
}

}  // namespace tessera::onnx
