// What a user allows code to round beyond the types that it computes in.
#pragma once

#include <string_view>

#include "tessera/machine/target/target.h"
#include "tessera/support/tolerance.h"

namespace tessera::target {

// The target with `what` allowed: "tf32", products of f32 on tensor cores, which round their
// operands to 10 bits of fraction; "bf16x6", products of f32 on tensor cores as sums of products of
// three parts in bf16, which lose about as much as the roundings of f32 do; "": nothing. Part of
// its text, so that code, plans and records made with it are told from others. kUnsupported where
// the target has nothing of the kind. What was allowed before no longer is.
Result<Target> allow_fast_math(Target target, std::string_view what);

// The machine alone.
Target without_fast_math(Target target);

// How products of f32 may be computed for it, by what they lose: of parts in bf16, exactly.
Products products_of(const Target& target);
// Products of f32 may be computed from parts in bf16.
bool splits_products(const Target& target);

}  // namespace tessera::target
