// Where values are rounded on the way to an output of a Dag.
#pragma once

#include "tessera/support/tolerance.h"
#include "tessera/te/dag.h"

namespace tessera::te {

// Of the stages that output `output` needs: one per stage and type that it calculates in (sums:
// their length) or casts to with a loss. Inputs, copies, comparisons and exact casts (u8 to f32)
// round nothing. With tf32, both operands of sums of products of f32 are rounded.
Roundings roundings(const Dag& dag, std::size_t output, Products products = Products::kExact);

// Those of all stages of the Dag.
Roundings roundings(const Dag& dag, Products products = Products::kExact);

}  // namespace tessera::te
