// How one ONNX operator becomes nodes of the graph. The table is onnx/ops/op_table.cc: one row per
// operator and version at which its meaning changed.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/graph/builder.h"
#include "tessera/frontend/onnx/model.h"

namespace tessera::onnx {

using graph::kNoValue;
using graph::ValueId;

// How far loops are followed; ImportOptions says what the numbers mean.
struct LoopLimits {
  std::int64_t steps = 0, unrolled_nodes = 0;
};

// Imports a body (of If, Loop, Scan) in the scope of the node that owns it.
class BodyImporter {
 public:
  virtual ~BodyImporter() = default;
  virtual LoopLimits loop_limits() const = 0;
  // How many nodes that draw numbers for a value of this name came before: bodies and functions
  // may be imported again and again.
  virtual std::int64_t count_draw(const std::string& name) = 0;
  // `args` are bound to the body's inputs in order; returns the body's outputs.
  virtual Result<std::vector<ValueId>> import_body(const Graph& body,
                                                   const std::vector<ValueId>& args) = 0;
};

// Sequences of tensors exist only during import: ids below kNoValue stand for them. Rows with
// takes_sequences may see such ids among their inputs.
class Sequences {
 public:
  // kUnsupported when all sequences together have grown too long.
  Result<ValueId> add(std::vector<ValueId> elements);
  static bool is_sequence(ValueId id) { return id < kNoValue; }
  const std::vector<ValueId>& elements(ValueId sequence) const;

 private:
  std::vector<std::vector<ValueId>> sequences_;  // entry i has id kNoValue - 1 - i
  std::size_t total_ = 0;
};

// One node being imported.
struct Context {
  graph::GraphBuilder& b;
  const Node& node;
  std::int64_t version;         // opset of the node's domain in the model
  std::vector<ValueId> inputs;  // kNoValue where omitted
  BodyImporter& bodies;
  Sequences& sequences;
  std::vector<int>
      widened;  // bits of inputs that are of a narrow type in the model; 0: they are not

  bool has(std::size_t i) const { return i < inputs.size() && inputs[i] != kNoValue; }
  ValueId in(std::size_t i) const { return inputs[i]; }  // check has() or the table's min_inputs
  // By value: references into the builder end when it adds a node.
  Shape shape(std::size_t i) const { return b.shape(inputs[i]); }
  std::int64_t rank(std::size_t i) const { return static_cast<std::int64_t>(shape(i).size()); }
  DType dtype(std::size_t i) const { return b.dtype(inputs[i]); }
  bool wants(std::size_t output) const {  // the output has a name
    return output < node.outputs.size() && !node.outputs[output].empty();
  }

  // Attributes; a present one of another kind is kInvalidArgument.
  Result<std::int64_t> integer(std::string_view name,
                               std::optional<std::int64_t> absent = {}) const;
  Result<double> number(std::string_view name, std::optional<double> absent = {}) const;
  Result<std::string> word(std::string_view name, std::optional<std::string> absent = {}) const;
  Result<std::vector<std::int64_t>> integers(
      std::string_view name, std::optional<std::vector<std::int64_t>> absent = {}) const;
  Result<std::vector<double>> numbers(std::string_view name,
                                      std::optional<std::vector<double>> absent = {}) const;
  Result<HostTensor> tensor(std::string_view name) const;
  Result<const Graph*> body(std::string_view name) const;
  bool has_attribute(std::string_view name) const { return node.find(name) != nullptr; }

  // The value of an input that must be known now; kDataDependent names the input when it is not.
  // The pointer is valid until the builder adds a node: copy the tensor (copies share the data).
  Result<const HostTensor*> constant(std::size_t i, std::string_view what) const;
  Result<std::vector<std::int64_t>> constant_integers(std::size_t i, std::string_view what) const;
  // Axis in [-rank, rank) -> [0, rank).
  Result<std::int64_t> axis(std::int64_t axis, std::int64_t rank) const;
};

// What an operator makes of constants of narrow types (int4, float8, ...), which come in a wider
// one.
enum class Widened : std::uint8_t {
  kRefused,
  kNumbers,  // only the numbers matter, not the range of the type
  kMoved,    // elements are moved: the results are of the narrow type again
};

struct OnnxOp {
  const char* name;
  int since;  // used for models of opset >= since, up to the next row of the same name
  int min_inputs, max_inputs;  // max -1: variadic
  // One value per output of the node, kNoValue for those not wanted or not available.
  Result<std::vector<ValueId>> (*import)(Context& c);
  const char* domain = "";
  bool takes_sequences = false;
  Widened widened = Widened::kRefused;
  bool takes_stored = false;  // weights that are not unpacked yet, too
};

// The row for an operator at an opset; null when there is none.
const OnnxOp* find_onnx_op(std::string_view domain, std::string_view name, std::int64_t opset);
const std::vector<OnnxOp>& onnx_op_table();

}  // namespace tessera::onnx
