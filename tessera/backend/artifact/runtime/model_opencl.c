/* The runtime of artifacts for GPUs with OpenCL, as one object. */
#include "tessera/backend/artifact/runtime/device_context.c"
#include "tessera/backend/artifact/runtime/opencl.c"

#define TSR_PROGRAM tsr_device_program
#include "tessera/backend/artifact/runtime/entry_points.c"
