// What a program of AMX instructions leaves in its memory, by plain loops over its steps.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/amx_trap/tile_program.h"

namespace tessera::testing {

// `marked`: sttilecfg shows 255 as the start row of a configuration that was used, as it does where
// the processor executes it and the handler executes the rest.
std::vector<std::uint8_t> run_reference(const TileProgram& program, bool marked);

// x * y + z in the arithmetic of dots of floats: rounded once to nearest, ties to even; numbers
// that are not normal count as zero.
float fused_reference(float x, float y, float z);

}  // namespace tessera::testing
