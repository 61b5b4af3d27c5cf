// Floats narrower than f32: which a machine multiplies, and how much of a model is computed so.
#pragma once

#include <string>
#include <string_view>

#include "tessera/frontend/task/task.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {

// f32, f16 or bf16, as --dtype names what f32 is computed in.
Result<DType> float_type(std::string_view name);

// Whether the target has instructions for products of the type. Processors without them compute in
// f32 what is stored in it; GPUs always take it.
bool multiplies(const target::Target& target, DType type);

// kUnsupported: computing f32 models in the type would be slower on the target.
Result<void> check_floats(const target::Target& target, DType floats);

// One line about the type that would compute products of f32 faster on the target; empty: none.
std::string faster_floats(const target::Target& target, DType floats, const task::TaskGraph& tasks);

// Of the multiplications of floats that are summed, those of operands in f16 or bf16; 0 of none.
double narrow_share(const task::TaskGraph& tasks);

}  // namespace tessera::app
