/* The runtime of artifacts for GPUs with CUDA, as one object. */
#include "tessera/backend/artifact/runtime/cuda.c"
#include "tessera/backend/artifact/runtime/device_context.c"

#define TSR_PROGRAM tsr_device_program
#include "tessera/backend/artifact/runtime/entry_points.c"
