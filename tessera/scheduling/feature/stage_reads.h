// What the stages of a program access, tensor by tensor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/scheduling/feature/expression.h"

namespace tessera::feature {

// All accesses of a stage to one tensor.
struct TensorReads {
  TensorReads(const ir::BufferNode* of, std::size_t dimensions, std::pmr::memory_resource* memory)
      : buffer(of), rank(dimensions), first_indices(memory), indices(memory), ends(memory) {}
  const ir::BufferNode* buffer;
  std::size_t rank;
  int reads = 0;  // written occurrences
  bool read = false, write = false, conditional = false;
  std::pmr::vector<int> first_indices;  // of its reads, in Expression::indices
  // Nodes of Expression that index it, one dimension after the other, each once; the first of a
  // dimension is that of the first read. Those of dimension d end at ends[d].
  std::pmr::vector<int> indices;
  std::pmr::vector<std::size_t> ends;
};

struct StageReads {
  explicit StageReads(std::pmr::memory_resource* memory) : expr(memory), tensors(memory) {}
  Expression expr;
  std::pmr::vector<TensorReads> tensors;  // read ones in order of appearance, then outputs
};

// False when the expression is unreasonably large, as of analyse().
bool find_reads(const schedule::State& state, const schedule::Stage& stage, StageReads* out);

// Keeps them for many schedules of one Dag: those of an operation that no step rewrote depend only
// on which others are inlined.
class ReadsCache {
 public:
  // The schedules that follow are of this one.
  void remember(const te::Dag& dag);
  // Which operations of it are inlined in a state; what find() gave before is no longer valid.
  void look_at(const schedule::State& state);
  // Of a stage of that state; null: not one to keep, or too large.
  const StageReads* find(const schedule::State& state, const schedule::Stage& stage);

 private:
  int number_of(const te::Op& op) const;  // in the Dag; -1: it was rewritten

  std::vector<te::Op> ops_;
  std::uint64_t inlined_ = 0;  // by number
  bool known_ = false;         // all inlined stages are as in the Dag
  std::map<std::pair<int, std::uint64_t>, std::unique_ptr<const StageReads>> kept_;
};

}  // namespace tessera::feature
