// RotaryEmbedding of opset 23 and of com.microsoft.
#include "tessera/frontend/onnx/ops/attention_parts.h"
#include "tessera/frontend/onnx/ops/contrib.h"
#include "tessera/frontend/onnx/ops/ops.h"
#include "tessera/frontend/onnx/ops/shapes.h"
#include "tessera/support/invalid.h"

namespace tessera::onnx {
namespace {

using Values = std::vector<ValueId>;

struct Rotation {
  std::int64_t heads = 0, size = 0;
  bool packed = false;  // [batch, sequence, heads * size], not [batch, heads, sequence, size]
  bool interleaved = false;
};

// Input 0 rotated by tables [batch or 1, sequence, half].
Result<Values> rotated(Formula& f, Context& c, const Rotation& r, Term cosine, Term sine) {
  if (f.failed()) return f.error();
  const Shape shape = c.shape(0), table = f.shape(cosine);
  if (f.shape(sine) != table)
    return invalid("tables {} and {}", to_text(table), to_text(f.shape(sine)));
  Term x = f.in(0);
  if (r.packed) x = f.reshape(x, {shape[0], shape[1], r.heads, r.size});
  const Shape aligned =
      r.packed ? Shape{table[0], table[1], 1, table[2]} : Shape{table[0], 1, table[1], table[2]};
  const Term y = rotate(f, x, f.reshape(cosine, aligned), f.reshape(sine, aligned), r.interleaved);
  return f.result({f.reshape(y, shape)});
}

Result<Rotation> read_rotation(const Context& c) {
  Rotation r;
  TESSERA_TRY(const std::int64_t interleaved, c.integer("interleaved", 0));
  r.interleaved = interleaved != 0;
  r.packed = c.rank(0) == 3;
  if (!r.packed && c.rank(0) != 4) return invalid("the input must have rank 3 or 4");
  return r;
}

Result<void> read_packed(const Context& c, std::int64_t num_heads, Rotation& r) {
  if (num_heads < 1 || c.shape(0)[2] % num_heads != 0)
    return invalid("num_heads {} does not divide {}", num_heads, c.shape(0)[2]);
  r.heads = num_heads;
  r.size = c.shape(0)[2] / num_heads;
  return {};
}

Term rows_of(Formula& f, std::size_t table, Term positions) {
  return f.op("gather", {f.in(table), positions}, {{"axis", std::int64_t{0}}});
}

// input, cosines, sines, positions?
Result<Values> import_rotary_embedding(Context& c) {
  TESSERA_TRY(Rotation r, read_rotation(c));
  TESSERA_TRY(const std::int64_t num_heads, c.integer("num_heads", 0));
  TESSERA_TRY(std::int64_t dim, c.integer("rotary_embedding_dim", 0));
  if (r.packed) {
    TESSERA_DO(read_packed(c, num_heads, r));
  } else {
    r.size = c.shape(0)[3];
  }
  Formula f(c);
  const Term cosine = c.has(3) ? rows_of(f, 1, f.in(3)) : f.in(1);
  const Term sine = c.has(3) ? rows_of(f, 2, f.in(3)) : f.in(2);
  if (f.failed()) return f.error();
  if (dim == 0) dim = r.size;
  const Shape table = f.shape(cosine);
  if (dim < 0 || dim > r.size || dim % 2 != 0 || table.size() != 3 || f.shape(sine) != table ||
      table[2] != dim / 2)
    return invalid("tables {} do not rotate {} of {} elements", to_text(table), dim, r.size);
  return rotated(f, c, r, cosine, sine);
}

// input, positions, cosines, sines: the tables have a row for each position, the positions are one
// for every token, or that of the first one.
Result<Values> import_contrib_rotary_embedding(Context& c) {
  TESSERA_TRY(Rotation r, read_rotation(c));
  TESSERA_TRY(const std::int64_t num_heads, c.integer("num_heads", 0));
  TESSERA_TRY(const std::int64_t dim, c.integer("rotary_embedding_dim", 0));
  TESSERA_TRY(const double scale, c.number("scale", 1.0));
  if (scale != 1) return make_error(ErrorCode::kUnsupported, "scale={}", scale);
  const Shape x = c.shape(0), table = c.shape(2);
  if (table.size() != 2 || c.shape(3) != table || table[1] < 1 || (dim != 0 && dim != 2 * table[1]))
    return invalid("tables {} and {} for rotary_embedding_dim {}", to_text(table),
                   to_text(c.shape(3)), dim);
  if (r.packed) {
    const std::int64_t inferred = x[2] / (2 * table[1]);
    TESSERA_DO(read_packed(c, dim != 0 || num_heads != 0 ? num_heads : inferred, r));
  } else {
    r.size = x[3];
  }
  if (2 * table[1] > r.size)
    return invalid("tables {} for heads of {} elements", to_text(table), r.size);
  const std::int64_t batch = x[0], tokens = r.packed ? x[1] : x[2];
  Formula f(c);
  Term positions = f.cast(f.in(1), DType::kI64);
  if (c.shape(1) == Shape{1}) {
    positions = f.reshape(positions, {1, 1}) + counting(f, tokens);
  } else if (c.shape(1) != Shape{batch, tokens}) {
    return invalid("position_ids are {} for {} sequences of {}", to_text(c.shape(1)), batch,
                   tokens);
  }
  return rotated(f, c, r, rows_of(f, 2, positions), rows_of(f, 3, positions));
}

}  // namespace

std::vector<OnnxOp> rotary_embedding_rows() {
  return {
      {"RotaryEmbedding", 23, 3, 4, import_rotary_embedding},
      {"RotaryEmbedding", 1, 4, 4, import_contrib_rotary_embedding, kMicrosoft},
  };
}

}  // namespace tessera::onnx
