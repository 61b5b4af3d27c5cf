// Sequences, optionals and bodies: If, Loop and Scan.
#include <algorithm>

#include "draw.h"
#include "tests/onnx/model_builder.h"

namespace tessera::fuzz {
namespace {

using onnx::testing::make_graph;
using onnx::testing::make_node;
using onnx::testing::value_info;

std::string position(Draw& d, std::int64_t n) {
  return d.scalar(DType::kI64, static_cast<double>(d.between(-n, n - 1)));
}

// Two or three values in a sequence; d.outputs[0] is its name, `count` its length.
bool construct(Draw& d, Types types, std::int64_t* count) {
  const std::string x = d.any(d.type(types), {1, 4});
  Names in = {x, d.shaped(d.dtype(x), d.shape(x))};
  if (d.chance(0.5)) in.push_back(x);
  *count = std::ssize(in);
  return d.emit("SequenceConstruct", in);
}

bool at(Draw& d, const OpRow& row) {
  std::int64_t n = 0;
  return construct(d, row.types, &n) && d.emit("SequenceAt", {Names(d.outputs)[0], position(d, n)});
}

bool length(Draw& d, const OpRow& row) {
  std::int64_t n = 0;
  return construct(d, row.types, &n) && d.emit(row.name, {Names(d.outputs)[0]});
}

bool joined(Draw& d, const OpRow& row) {
  std::int64_t n = 0;
  if (!construct(d, row.types, &n)) return false;
  const std::string sequence = d.outputs[0];
  return d.emit(row.name, {sequence}, {attr("axis", 0), attr("new_axis", d.chance(0.5))});
}

bool erase(Draw& d, const OpRow& row) {
  std::int64_t n = 0;
  return construct(d, row.types, &n) && d.emit(row.name, {Names(d.outputs)[0], position(d, n)}) &&
         d.emit("SequenceAt", {Names(d.outputs)[0], position(d, n - 1)});
}

bool insert(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {0, 4});
  const bool empty = d.chance(0.3) && d.dtype(x) == DType::kF32;
  if (empty ? !d.emit("SequenceEmpty", {}) : !d.emit("SequenceConstruct", {x})) return false;
  if (!d.emit(row.name, {Names(d.outputs)[0], d.shaped(d.dtype(x), d.shape(x))})) return false;
  return d.emit("SequenceAt", {Names(d.outputs)[0], d.scalar(DType::kI64, -1)});
}

bool split(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 4});
  if (d.shape(x)[0] == 0) return false;
  if (!d.emit(row.name, {x}, {attr("axis", 0), attr("keepdims", d.chance(0.5))})) return false;
  return d.emit("SequenceAt", {Names(d.outputs)[0], d.scalar(DType::kI64, 0)});
}

bool optional(Draw& d, const OpRow& row) {
  if (!d.emit("Optional", {d.any(d.type(row.types), {})})) return false;
  return d.emit(row.name, {Names(d.outputs)[0]});
}

onnx::ValueInfo info(Draw& d, const std::string& body_name, const std::string& value) {
  return value_info(body_name, d.dtype(value), d.shape(value));
}

// Branches read the values outside; the condition is mostly known.
bool branch(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {});
  const std::string y = d.shaped(d.dtype(x), d.shape(x));
  const std::string mine = "b" + std::to_string(d.nodes());
  const auto body = [&](const char* op, const char* suffix) {
    return make_graph({}, {make_node(op, {x, y}, {mine + suffix})}, {mine + suffix});
  };
  HostTensor condition(DType::kBool, {});
  condition.set_int(0, d.rng.below(2));
  return d.emit(row.name, {d.waits && d.chance(0.5) ? d.input(condition) : d.constant(condition)},
                {onnx::testing::body_attribute("then_branch", body("Add", "t")),
                 onnx::testing::body_attribute("else_branch", body("Mul", "e"))});
}

// acc = acc * 1/2 + x, three times or so; every acc is also an element of the scan output.
bool loop(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {0, 3}, within(-100, 100));
  const std::string half = d.scalar(d.dtype(x), 0.5);
  const std::string mine = "b" + std::to_string(d.nodes());
  onnx::Graph body = make_graph({value_info(mine + "i", DType::kI64, {}),
                                 value_info(mine + "c", DType::kBool, {}), info(d, mine + "a", x)},
                                {make_node("Identity", {mine + "c"}, {mine + "d"}),
                                 make_node("Mul", {mine + "a", half}, {mine + "m"}),
                                 make_node("Add", {mine + "m", x}, {mine + "n"})},
                                {mine + "d", mine + "n", mine + "n"});
  return d.emit(row.name, {d.scalar(DType::kI64, static_cast<double>(d.between(1, 4))), "", x},
                {onnx::testing::body_attribute("body", std::move(body))}, 2);
}

bool scan(Draw& d, const OpRow& row) {
  const std::string x = d.any(d.type(row.types), {1, 3}, within(-100, 100));
  const Shape s = d.shape(x);
  if (elements(s) == 0) return false;
  const Shape one(s.begin() + 1, s.end());
  const std::string first = d.shaped(d.dtype(x), one, within(-100, 100));
  const std::string mine = "b" + std::to_string(d.nodes());
  onnx::Graph body =
      make_graph({info(d, mine + "a", first), value_info(mine + "x", d.dtype(x), one)},
                 {make_node("Max", {mine + "a", mine + "x"}, {mine + "n"}),
                  make_node("Sub", {mine + "n", mine + "x"}, {mine + "y"})},
                 {mine + "n", mine + "y"});
  return d.emit(
      row.name, {first, x},
      {attr("num_scan_inputs", 1), onnx::testing::body_attribute("body", std::move(body))}, 2);
}

}  // namespace

std::vector<OpRow> sequence_rows() {
  return {
      {"SequenceAt", kAll, at, 11},
      {"SequenceLength", kAll, length, 11},
      {"ConcatFromSequence", kAll, joined, 11},
      {"SequenceErase", kAll, erase, 11},
      {"SequenceInsert", kAll, insert, 11},
      {"SplitToSequence", kAll, split, 11},
      {"OptionalGetElement", kAll, optional, 15},
      {"OptionalHasElement", kAll, optional, 15},
      {"If", kNumbers, branch, 11},
      {"Loop", kFloats, loop, 13},
      {"Scan", kNumbers, scan, 11},
  };
}

}  // namespace tessera::fuzz
