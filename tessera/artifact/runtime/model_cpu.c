/* The runtime of artifacts for processors, as one object. */
#include "tessera/artifact/runtime/context.c"

#define TSR_PROGRAM tsr_program
#include "tessera/artifact/runtime/entry_points.c"
