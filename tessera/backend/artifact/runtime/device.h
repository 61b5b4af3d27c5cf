/* What cuda.c and opencl.c offer to device_context.c; an artifact contains one of the two. Memory
 * and streams are named by what the driver calls them: addresses or cl_mem, CUstream or
 * cl_command_queue. */
#ifndef TESSERA_ARTIFACT_DEVICE_H_
#define TESSERA_ARTIFACT_DEVICE_H_

#include <stddef.h>

#include "tessera/backend/artifact/runtime/program.h"

/* Begins with these; zero everywhere: not open. */
typedef struct tsr_device_base {
  const tsr_device_program* program;
  int32_t ordinal;
  void* stream; /* of the context's own */
} tsr_device_base;

typedef struct tsr_device tsr_device;

static size_t tsr_device_size(void);
/* Loads the driver, opens the device and loads the code. */
static tsr_status tsr_device_open(tsr_device* device, const tsr_open_options* options);
/* What still refers to memory of the device. */
static void tsr_device_drop_kernels(tsr_device* device);
static void tsr_device_close(tsr_device* device);

/* Around everything below: what the calling thread has current is left as it was. */
static tsr_status tsr_device_enter(tsr_device* device);
static void tsr_device_leave(tsr_device* device);

static tsr_status tsr_device_allocate(tsr_device* device, int64_t bytes, void** memory);
/* Of allocations and of parts. */
static void tsr_device_free(tsr_device* device, void* memory, int is_part);
static tsr_status tsr_device_part(tsr_device* device, void* memory, int64_t offset, int64_t bytes,
                                  void** part);
/* Whether memory of the caller is one of the device's, as large as the tensor. */
static tsr_status tsr_device_check(tsr_device* device, const tsr_tensor_info* tensor, void* memory);
/* Whether kernels can use it in place. */
static int tsr_device_in_place(const void* memory);

static tsr_status tsr_device_upload(tsr_device* device, void* stream, void* to, const void* from,
                                    int64_t bytes);
static tsr_status tsr_device_download(tsr_device* device, void* stream, void* to, void* from,
                                      int64_t bytes);
static tsr_status tsr_device_copy(tsr_device* device, void* stream, void* to, void* from,
                                  int64_t from_offset, int64_t bytes);
/* `memory`: by place of the program. */
static tsr_status tsr_device_launch(tsr_device* device, void* stream, int64_t launch,
                                    void** memory);
/* Everything between inputs and outputs, which are in `slots`: tsr_enqueue, or a recording of it.
 */
static tsr_status tsr_device_run(tsr_device* device, void* stream, tsr_context* context,
                                 void* const* slots);
static tsr_status tsr_device_wait(tsr_device* device, void* stream);

/* Of device_context.c. */
static tsr_status tsr_enqueue(tsr_context* context, void* stream);

#endif
