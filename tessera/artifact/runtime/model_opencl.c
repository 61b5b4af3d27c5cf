/* The runtime of artifacts for GPUs with OpenCL, as one object. */
#include "tessera/artifact/runtime/device_context.c"
#include "tessera/artifact/runtime/opencl.c"

#define TSR_PROGRAM tsr_device_program
#include "tessera/artifact/runtime/entry_points.c"
