/* The runtime of artifacts for GPUs as functions of this program, which opens models that it has
 * compiled itself without a C compiler. */
#ifndef TESSERA_ARTIFACT_DEVICE_API_H_
#define TESSERA_ARTIFACT_DEVICE_API_H_

#include "tessera/backend/artifact/runtime/program.h"

#ifdef __cplusplus
extern "C" {
#endif

/* As the functions of tsr_model_api. The program outlives its contexts. */
typedef struct tsr_device_api {
  tsr_status (*open)(const tsr_device_program* program, const tsr_open_options* options,
                     tsr_context** context);
  int64_t (*memory_bytes)(const tsr_context* context);
  tsr_status (*run)(tsr_context* context, const void* const* inputs, void* const* outputs,
                    void* memory);
  tsr_status (*run_tensors)(tsr_context* context, const tsr_dl_tensor* inputs,
                            const tsr_dl_tensor* outputs, void* stream);
  void (*close)(tsr_context* context);
} tsr_device_api;

const tsr_device_api* tessera_cuda_api(void);
const tsr_device_api* tessera_opencl_api(void);

#ifdef __cplusplus
}
#endif
#endif
