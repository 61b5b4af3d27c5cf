// Operands of tensor cores on their way through shared memory.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/scheduling/space/contraction.h"
#include "tessera/scheduling/space/gpu/gpu_facts.h"

namespace tessera::space {

// Operations of a copy that every block may repeat.
inline constexpr double kGpuCheapCopy = 8;

struct GpuOperand {
  const Access* access = nullptr;
  std::vector<std::size_t> order;  // dimensions as they are stored, outermost first
  bool moved = false;              // that order is not the one of the buffer
  bool transposed = false;         // of the copy alone: the buffer keeps its order

  schedule::Layout layout() const;
};

// The axis moves along the last index, one by one.
bool is_last_axis(const Access& access, std::size_t axis);

// The reduce axis of at least `depth` elements along which an operand lies, or else the longest.
std::optional<std::size_t> find_gpu_cut(const Context& x, const Contraction& c, std::int64_t depth);

// The operand whose rows are axis `outer` and whose reduction runs along `cut`. As it lies; a
// constant that does not lie right, or whose rows are not whole vectors, is stored in another
// order. Nothing where neither axis is side by side. With `along_cut` constants always lie along
// the reduction.
std::optional<GpuOperand> make_gpu_operand(const Context& x, const Contraction& c, const Access& a,
                                           std::size_t outer, std::size_t cut,
                                           bool along_cut = false);

// Planes of the operand that reduce axes look up, 1 where they do not: a copy has them all.
std::int64_t gpu_planes(const Access& access);

// Begins the copy that stage `reader` reads. What makes the operand is computed by the copy, if
// that is little.
void begin_gpu_copy(Context& x, const GpuOperand& operand, const std::string& reader);

// Elements of 16 bytes, or of less where rows of the buffer, or the `span` of a copy, are not whole
// ones.
std::int64_t gpu_copy_lanes(const GpuOperand& operand, std::int64_t span);

// Lets `groups` (y) of `threads` (x) copy the `elements` that the loops `dims` run over, `lanes`
// each at a time.
void share_gpu_copy(Writer& w, const std::string& stage, const Loops& dims, std::int64_t elements,
                    std::int64_t lanes, std::int64_t groups, std::int64_t threads);

}  // namespace tessera::space
