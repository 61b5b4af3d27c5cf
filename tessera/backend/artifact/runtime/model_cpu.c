/* The runtime of artifacts for processors, as one object. */
#include "tessera/backend/artifact/runtime/context.c"

#define TSR_PROGRAM tsr_program
#define TSR_VARIANTS
#include "tessera/backend/artifact/runtime/entry_points.c"
