// What a user allows code to round beyond the types that it computes in.
#pragma once

#include <string_view>

#include "tessera/machine/target/target.h"
#include "tessera/support/tolerance.h"

namespace tessera::target {

const char* to_text(FastMath what);  // "", "tf32", "bf16x6"
Result<FastMath> fast_math_from_text(std::string_view text);

// The target with `what` (a text of FastMath) allowed instead of what was; "" changes nothing. It
// is part of the target's text, which tells code, plans and records made with it from others.
// kUnsupported if the target has no tensor cores for it.
Result<Target> allow_fast_math(Target target, std::string_view what);

// Older texts of targets list what is allowed among the features; this takes it out of them.
void read_fast_math_feature(Target& target);

// The machine alone.
Target without_fast_math(Target target);

// How products of f32 may be computed for it, by what they lose: of parts in bf16, exactly.
Products products_of(const Target& target);
// Products of f32 may be computed from parts in bf16.
bool splits_products(const Target& target);

}  // namespace tessera::target
