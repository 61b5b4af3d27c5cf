// Tensor expressions: what is computed, with no loop order. A Dag is a list of operations over
// buffers.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/lang/ir/build.h"
#include "tessera/lang/ir/expr.h"
#include "tessera/support/result.h"

namespace tessera::te {

struct Axis {
  ir::Expr var;  // ir::Var, i64
  std::int64_t extent = 0;
};

enum class Reducer : std::uint8_t {
  kNone,  // outputs[i][axes] = values[i]
  kSum,
  kMax,
  kMin,
  kProd,
  kArgMax,  // values = {value, index}; outputs = {best value, its index}; ties keep the smaller
            // index. A NaN is better than every number, as kMax and kMin keep it
  kArgMin,
};

// outputs[i][axes...] = reduce over reduce_axes of values[i]. Values are ir expressions over the
// axis variables whose Loads read inputs or outputs of earlier operations. Every output has shape =
// axis extents. A reduction over an empty domain gives the identity. Outputs of one op share axes
// and reducer.
struct Op {
  std::string name;
  std::vector<Axis> axes;
  std::vector<Axis> reduce_axes;
  Reducer reducer = Reducer::kNone;
  std::vector<ir::Expr> values;
  std::vector<ir::Buffer> outputs;
};

struct Input {
  ir::Buffer buffer;
  bool constant = false;  // known at compile time: may be repacked by a layout step
};

// Operations are in topological order. A value that copies and compares by identity of its buffers.
struct Dag {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Op> ops;
  std::vector<ir::Buffer> outputs;

  // The op that writes `buffer`, or null for inputs.
  const Op* producer(const ir::Buffer& buffer) const;
  bool is_output(const ir::Buffer& buffer) const;
};

const char* to_text(Reducer r);                             // "sum", ...
ir::Expr identity(Reducer r, DType t, std::size_t output);  // neutral element of output `output`
// Combines accumulator and value expressions (lists of size 1, or 2 for arg reducers).
std::vector<ir::Expr> combine(Reducer r, const std::vector<ir::Expr>& acc,
                              const std::vector<ir::Expr>& value);

// Readable definition of the whole Dag (`--stage te`).
std::string to_text(const Dag& dag);
// Reads it back: the same text, keys and stages; chains of one logical operator associate to the
// left. Types of constants follow from what they meet. Verified; errors name line and column.
Result<Dag> dag_from_text(std::string_view text);
// Topological order, ranks, types, axes extents, overflow-sized shapes; the message names the op.
Result<void> verify(const Dag& dag);
// Floating-point (or integer) operations of the whole Dag: multiplies, adds, compares, intrinsic
// calls count one each; a fused multiply-add counts two. Index arithmetic and selects count
// nothing.
double flop_count(const Dag& dag);

}  // namespace tessera::te
