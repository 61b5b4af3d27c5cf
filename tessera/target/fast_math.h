// What a user allows code to round beyond the types that it computes in.
#pragma once

#include <string_view>

#include "tessera/support/tolerance.h"
#include "tessera/target/target.h"

namespace tessera::target {

// The target with `what` allowed: "tf32", products of f32 on tensor cores, which round their
// operands to 10 bits of fraction; "": nothing. Part of its text, so that code, plans and records
// made with it are told from others. kUnsupported where the target has nothing of the kind.
Result<Target> allow_fast_math(Target target, std::string_view what);

// The machine alone.
Target without_fast_math(Target target);

// How products of f32 may be computed for it.
Products products_of(const Target& target);

}  // namespace tessera::target
