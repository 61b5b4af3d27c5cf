// A graph under construction: what the rows of the operator table draw from and add to.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trace.h"

namespace tessera::fuzz {

// Sets of element types, as bits of DType.
using Types = std::uint32_t;
constexpr Types bit(DType t) { return Types{1} << static_cast<unsigned>(t); }
constexpr Types kHalf = bit(DType::kF16) | bit(DType::kBF16);
constexpr Types kF32Only = bit(DType::kF32);
constexpr Types kFloats = kHalf | bit(DType::kF32) | bit(DType::kF64);
constexpr Types kSigned = bit(DType::kI8) | bit(DType::kI16) | bit(DType::kI32) | bit(DType::kI64);
constexpr Types kUnsigned =
    bit(DType::kU8) | bit(DType::kU16) | bit(DType::kU32) | bit(DType::kU64);
constexpr Types kInts = kSigned | kUnsigned;
constexpr Types kIndex = bit(DType::kI32) | bit(DType::kI64);
constexpr Types kBytes = bit(DType::kI8) | bit(DType::kU8);
constexpr Types kBool = bit(DType::kBool);
constexpr Types kNumbers = kFloats | kInts;
constexpr Types kAll = kNumbers | kBool;

// What the elements of an operand must lie in; integers of a range that is not bounded may be the
// extremes of their type.
struct Range {
  double low = -4, high = 4;
  bool bounded = false;
};
constexpr Range kFree = {};
constexpr Range within(double low, double high) { return {low, high, true}; }

struct Ranks {
  std::int64_t least = 0, most = 5;
};

using Attributes = std::vector<onnx::Attribute>;
using Names = std::vector<std::string>;

template <class T>
onnx::Attribute attr(const std::string& name, T value) {
  if constexpr (std::is_integral_v<T>) {
    return {name, static_cast<std::int64_t>(value), ""};
  } else {
    return {name, std::move(value), ""};
  }
}

class Draw {
 public:
  Draw(std::uint64_t seed, std::int64_t opset, std::int64_t max_elements);

  Rng rng;
  const std::int64_t opset;
  bool waits = false;  // for data: the model may have shapes that follow from it

  bool chance(double p) { return rng.chance(p); }
  std::int64_t between(std::int64_t low, std::int64_t high) { return rng.between(low, high); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(list.size())))];
  }

  // The next operand that may be any value is this one where it fits: graphs grow deep.
  void set_focus(bool last);  // the result of the last node, or any that nothing reads
  // One of the set, mostly one that the graph has values of.
  DType type(Types types);
  std::int64_t dim();  // odd more often than not, seldom 0
  Shape shape(Ranks ranks);
  std::int64_t max_elements() const { return max_elements_; }

  // A tensor of such elements; `extremes`: integers may be the largest and smallest of their type.
  HostTensor tensor(DType t, const Shape& shape, Range range);
  // A new input or constant.
  std::string fresh(DType t, const Shape& shape, Range range = kFree);
  std::string input(HostTensor value);
  // The same constant serves several nodes.
  std::string constant(const HostTensor& value);
  std::string integers(const Shape& values);  // i64, rank 1; seldom known only at run time
  std::string scalar(DType t, double value);  // rank 0
  std::string weight(DType t, const Shape& shape, Range range = within(-1, 1));

  // A value of the graph for which `fits` holds; "" where there is none.
  std::string find(const std::function<bool(const Traced&)>& fits);
  // A value of the graph, or else a fresh one.
  std::string any(DType t, Ranks ranks, Range range = kFree);
  std::string shaped(DType t, const Shape& shape, Range range = kFree);  // of exactly this shape
  // Of a shape that broadcasts to, or with, `shape`.
  std::string broadcast(DType t, const Shape& shape, Range range = kFree);

  const HostTensor& value(const std::string& name) const { return trace_.at(name).value; }
  const Shape& shape(const std::string& name) const { return value(name).shape(); }
  std::int64_t rank(const std::string& name) const { return std::ssize(shape(name)); }
  DType dtype(const std::string& name) const { return value(name).dtype(); }
  // An axis in [0, rank), or the same counted from the end.
  std::int64_t axis(std::int64_t rank) { return between(-rank, rank - 1); }

  // Adds a node where the oracle can compute it; the names of its outputs are in `outputs`.
  bool emit(const std::string& op, const Names& inputs, Attributes attributes = {},
            std::size_t outputs = 1, const std::string& domain = "");
  Names outputs;

  std::size_t nodes() const { return graph_.nodes.size(); }
  // Drops what was added since there were so many nodes.
  void take_back(std::size_t nodes);
  const onnx::Graph& graph() const { return graph_; }
  const Trace& trace() const { return trace_; }
  const std::string& last_refusal() const { return refusal_; }
  // The values that nothing reads, and a few others, are the outputs.
  Case finish();

 private:
  bool fits(const Traced& x, DType t, Ranks ranks, Range range) const;
  std::string name(const char* kind) { return kind + std::to_string(names_++); }

  std::int64_t max_elements_;
  Trace trace_;
  onnx::Graph graph_;
  std::vector<std::string> pool_;  // in the order of their making
  std::set<std::string> read_;     // by a node
  std::string focus_;              // "": none
  std::map<std::string, HostTensor> inputs_;
  int names_ = 0;
  std::string refusal_;
};

// An operator: how it draws its operands and attributes. False: what was drawn does not fit.
struct OpRow {
  const char* name;
  Types types;  // of the first operand, for rows that share a function
  bool (*draw)(Draw& d, const OpRow& row);
  int since = 1;
  Range range = kFree;
  Ranks ranks = {};
  const char* domain = "";
  bool by_data = false;  // the size of the result follows from data
};

// One list per family, joined by op_rows().
std::vector<OpRow> pointwise_rows();
std::vector<OpRow> reduction_rows();
std::vector<OpRow> movement_rows();
std::vector<OpRow> indexing_rows();
std::vector<OpRow> contraction_rows();
std::vector<OpRow> convolution_rows();
std::vector<OpRow> normalization_rows();
std::vector<OpRow> quantization_rows();
std::vector<OpRow> sequence_rows();
std::vector<OpRow> vision_rows();
std::vector<OpRow> contrib_rows();
std::vector<OpRow> decoder_rows();
const std::vector<OpRow>& op_rows();

constexpr const char* kMicrosoft = "com.microsoft";
constexpr const char* kTraining = "ai.onnx.preview.training";

}  // namespace tessera::fuzz
