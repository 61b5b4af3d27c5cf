// What a candidate is like, for those who learned from others: nothing is known of kinds that
// nobody measured.
#pragma once

#include <string>
#include <string_view>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"

namespace tessera::space {

// "MACHINE THREADS TYPES ALGORITHM SKETCH", five words: target::machine_kind, the threads of the
// code, the types of all elements that the task reads, computes and writes ("f32", "f32+i32+u8"),
// the names of its stages up to the first one that reduces ("conv", "concat+mul+contract"; "map":
// none does), and the sketch of the candidate, whose text begins with its name and a colon.
std::string candidate_kind(const te::Dag& dag, const target::Target& target, int threads,
                           std::string_view candidate);

}  // namespace tessera::space
