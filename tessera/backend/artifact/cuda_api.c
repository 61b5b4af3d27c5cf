#include "tessera/backend/artifact/runtime/cuda.c"
#include "tessera/backend/artifact/runtime/device_api.h"
#include "tessera/backend/artifact/runtime/device_context.c"

const tsr_device_api* tessera_cuda_api(void) {
  static const tsr_device_api api = {tsr_open, tsr_memory_bytes, tsr_run, tsr_run_tensors,
                                     tsr_close};
  return &api;
}
