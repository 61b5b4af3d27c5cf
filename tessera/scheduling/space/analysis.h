// What a schedule is chosen by: how every stage reads memory, what it costs, who uses it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tessera/lang/te/reads.h"

namespace tessera::space {

using te::Access;
using te::Index;
using te::IndexTerm;

struct Stage {
  te::Op op;
  bool output = false;             // writes an output of the Dag
  std::vector<Access> reads;       // one per load, in order of occurrence
  std::vector<std::size_t> users;  // stages that read it, without repetition
  double cost = 0;                 // operations per evaluation of the values; exp counts about ten
  int nodes = 0;                   // expression nodes of the values, without index arithmetic
  // Of a sum of two reads multiplied: how many vary along the last output axis of more than one
  // element; -1 when the stage is not such a sum.
  int operands_along_last = -1;
  // Axes that values select by: `axis == constant` or `axis mod constant == constant` over a few
  // values, with the modulus (0: the axis itself). Empty unless something is selected.
  std::map<std::size_t, std::int64_t> selectors;

  std::size_t rank() const { return op.axes.size(); }
  std::size_t axis_count() const { return op.axes.size() + op.reduce_axes.size(); }
  const te::Axis& axis(std::size_t i) const {
    return i < rank() ? op.axes[i] : op.reduce_axes[i - rank()];
  }
  const std::string& axis_name(std::size_t i) const;
  std::int64_t extent(std::size_t i) const { return axis(i).extent; }
  bool reduces() const { return op.reducer != te::Reducer::kNone; }
  double elements() const;    // of one output
  double iterations() const;  // elements times the reduce extents
  DType dtype() const { return op.outputs[0]->dtype; }
};

struct Analysis {
  std::vector<te::Input> inputs;
  std::vector<Stage> stages;  // topological order

  // The stage that writes the buffer, or -1 for inputs.
  int producer(const ir::Buffer& buffer) const;
  bool constant(const ir::Buffer& buffer) const;  // an input known at compile time
};

// All reads and the writes walk through memory in one line, or stand still.
bool walks_one_line(const Stage& stage);

// `ops` are those of `dag`, or what is left of them after inlining.
Analysis analyse(const te::Dag& dag, const std::vector<te::Op>& ops);

// A factor of the products that a sum adds up: a read, seen through casts and selects, or what is
// unpacked from constants, one of which holds the elements.
struct Factor {
  const ir::Load* load = nullptr;
  std::size_t reads = 1, at = 0;  // of the factor, and which of them is `load`
};
struct Product {
  Factor left, right;
};
bool match_product(const te::Op& op, const std::vector<te::Input>& inputs, Product* out);

}  // namespace tessera::space
