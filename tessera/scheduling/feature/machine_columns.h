// What a machine is, as numbers: columns of statements and of the context of a task.
#pragma once

#include <string>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::feature {

struct MachineColumn {
  const char* name;
  float (*read)(const target::Target& t);
};

// `cores` is the number of threads of the code that is judged: whoever extracts for code of N
// threads sets Target::cores to N first, however many the machine has.
const std::vector<MachineColumn>& machine_columns();
void append_machine(const target::Target& t, std::vector<float>* out);

}  // namespace tessera::feature
