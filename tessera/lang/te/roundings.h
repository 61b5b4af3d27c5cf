// Where values are rounded on the way to an output of a Dag.
#pragma once

#include "tessera/lang/te/dag.h"
#include "tessera/support/tolerance.h"

namespace tessera::te {

// Of the stages that output `output` needs: one per stage and type that it calculates in (sums:
// their length) or casts to with a loss. Inputs, copies, comparisons and exact casts (u8 to f32)
// round nothing, and integers that are rounded from what every build computes alike, bit for bit,
// are the same in all of them. With tf32, both operands of sums of products of f32 are rounded.
Roundings roundings(const Dag& dag, std::size_t output, Products products = Products::kExact);

// The same of a buffer of the Dag.
Roundings roundings(const Dag& dag, const ir::Buffer& buffer, Products products = Products::kExact);

// Those of all stages of the Dag, as a node of a graph: its inputs were rounded before.
Roundings roundings_of_node(const Dag& dag, Products products = Products::kExact);

// Whether the node itself, not what it is made of, gives a float that was rounded.
bool rounds_floats(const ir::Expr& e);

}  // namespace tessera::te
