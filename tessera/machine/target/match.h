// Which targets can stand for one another.
#pragma once

#include <string>

#include "tessera/machine/target/target.h"

namespace tessera::target {

// Why schedules made for one target do not serve another, in a few words; empty: they do. The
// instruction set and the vector registers count. Cores, caches and names do not: with others a
// schedule is at worst slower.
std::string mismatch(const Target& made_for, const Target& wanted);

// One word that is the same for machines without a mismatch in either direction:
// "x86_64:32x64:fma+f16", "nvptx64:255x16:fma:sm_90a".
std::string machine_kind(const Target& t);

// Whether times measured on one are times of the other: everything is equal but the name, the
// cores and the threads that were to be used.
bool same_machine(const Target& a, const Target& b);

// The same where caches may differ a little, as those of one processor do that a hypervisor or a
// firmware partitions: their times are compared, each divided by that of its calibration kernel.
bool same_group(const Target& a, const Target& b);

}  // namespace tessera::target
