// How measurements of a machine are taken and told, which GPUs do otherwise than CPUs.
#pragma once

#include <optional>

#include "tessera/machine/target/target.h"

namespace tessera::target {

// Of code that is measured: `threads`, but 1 for a GPU. Its threads are the schedule's, and its
// records carry one number, whatever host they come from.
int measured_threads(const Target& t, int threads);

// f32 operations that a GPU can start, in GFLOP/s by its data sheet (0: not known). Nothing for
// CPUs: theirs are measured.
std::optional<double> datasheet_gflops(const Target& t);

// Of the cache that all threads of the code share, or of theirs together where there is none.
double last_cache_bytes(const Target& t);

}  // namespace tessera::target
