// What a stage reads and computes at one point, with inlined stages seen through.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "tessera/scheduling/feature/program.h"
#include "tessera/scheduling/schedule/state.h"

namespace tessera::feature {

// A step of computing an index from the axes. Operands come before their users.
struct IndexNode {
  enum class Kind : std::uint8_t {
    kAxis,  // `a`: number of the axis, reduce axes after the others
    kConst,
    kAdd,
    kSub,
    kMul,
    kFloorDiv,
    kFloorMod,
    kMin,
    kMax,
    kEither,   // one of two values
    kUnknown,  // a value read from memory, or of a kind that bounds nothing
  };
  Kind kind = Kind::kConst;
  int a = 0, b = 0;
  double value = 0;  // kConst

  friend bool operator==(const IndexNode&, const IndexNode&) = default;
};

struct Interval {
  double lo = 0, hi = 0;  // inclusive
};

struct Read {
  const ir::BufferNode* buffer = nullptr;
  int first_index = 0;  // in Expression::indices: one node per dimension
  bool conditional = false;
  std::size_t group = 0;  // for the caller
};

struct Expression {
  explicit Expression(std::pmr::memory_resource* memory)
      : nodes(memory), indices(memory), reads(memory) {}

  std::pmr::vector<IndexNode> nodes;  // each different one once
  std::pmr::vector<int> indices;
  std::pmr::vector<Read> reads;
  OpCounts float_ops, int_ops;
  double bool_ops = 0, select_ops = 0;
  double index_ops = 0;  // of int_ops: those that compute indices
};

// False when the expression is unreasonably large (inlined stages used many times over).
bool analyse(const schedule::State& state, const schedule::Stage& stage, Expression* out);

// The values of all nodes at one point of the axes.
void evaluate(const std::pmr::vector<IndexNode>& nodes, const double* axes, double* values);
// Their bounds while the axes run over intervals.
void bound(const std::pmr::vector<IndexNode>& nodes, const Interval* axes, Interval* bounds);

}  // namespace tessera::feature
