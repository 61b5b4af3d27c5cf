/* Devices of OpenCL 1.2, whose library is loaded when a model is opened. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/device.h"
#include "tessera/backend/artifact/runtime/status.c"

/* Every function that is used: result, name, arguments. Handles are pointers. */
#define TSR_OPENCL_FUNCTIONS(V)                                                                   \
  V(int32_t, clGetPlatformIDs, (uint32_t n, void** out, uint32_t* count))                         \
  V(int32_t, clGetDeviceIDs,                                                                      \
    (void* platform, uint64_t type, uint32_t n, void** out, uint32_t* count))                     \
  V(int32_t, clGetDeviceInfo,                                                                     \
    (void* device, uint32_t info, size_t bytes, void* value, size_t* size))                       \
  V(void*, clCreateContext,                                                                       \
    (const intptr_t* properties, uint32_t n, void* const* devices,                                \
     void (*notify)(const char*, const void*, size_t, void*), void* user, int32_t* status))       \
  V(int32_t, clRetainContext, (void* context))                                                    \
  V(int32_t, clReleaseContext, (void* context))                                                   \
  V(void*, clCreateCommandQueue,                                                                  \
    (void* context, void* device, uint64_t properties, int32_t* status))                          \
  V(int32_t, clReleaseCommandQueue, (void* queue))                                                \
  V(int32_t, clGetCommandQueueInfo,                                                               \
    (void* queue, uint32_t info, size_t bytes, void* value, size_t* size))                        \
  V(int32_t, clFinish, (void* queue))                                                             \
  V(void*, clCreateBuffer,                                                                        \
    (void* context, uint64_t flags, size_t bytes, void* host, int32_t* status))                   \
  V(void*, clCreateSubBuffer,                                                                     \
    (void* memory, uint64_t flags, uint32_t type, const void* region, int32_t* status))           \
  V(int32_t, clGetMemObjectInfo,                                                                  \
    (void* memory, uint32_t info, size_t bytes, void* value, size_t* size))                       \
  V(int32_t, clReleaseMemObject, (void* memory))                                                  \
  V(int32_t, clEnqueueWriteBuffer,                                                                \
    (void* queue, void* memory, uint32_t blocking, size_t offset, size_t bytes, const void* from, \
     uint32_t waits, void* const* wait, void** event))                                            \
  V(int32_t, clEnqueueReadBuffer,                                                                 \
    (void* queue, void* memory, uint32_t blocking, size_t offset, size_t bytes, void* to,         \
     uint32_t waits, void* const* wait, void** event))                                            \
  V(int32_t, clEnqueueCopyBuffer,                                                                 \
    (void* queue, void* from, void* to, size_t from_offset, size_t to_offset, size_t bytes,       \
     uint32_t waits, void* const* wait, void** event))                                            \
  V(void*, clCreateProgramWithSource,                                                             \
    (void* context, uint32_t n, const char** texts, const size_t* sizes, int32_t* status))        \
  V(int32_t, clReleaseProgram, (void* program))                                                   \
  V(int32_t, clBuildProgram,                                                                      \
    (void* program, uint32_t n, void* const* devices, const char* options,                        \
     void (*notify)(void*, void*), void* user))                                                   \
  V(int32_t, clGetProgramBuildInfo,                                                               \
    (void* program, void* device, uint32_t info, size_t bytes, void* value, size_t* size))        \
  V(void*, clCreateKernel, (void* program, const char* name, int32_t* status))                    \
  V(int32_t, clReleaseKernel, (void* kernel))                                                     \
  V(int32_t, clSetKernelArg, (void* kernel, uint32_t index, size_t bytes, const void* value))     \
  V(int32_t, clEnqueueNDRangeKernel,                                                              \
    (void* queue, void* kernel, uint32_t dims, const size_t* offset, const size_t* items,         \
     const size_t* group, uint32_t waits, void* const* wait, void** event))

/* Numbers of OpenCL's header. */
enum {
  TSR_CL_MAX_GROUP = 0x1004,
  TSR_CL_MEMORY = 0x101f,
  TSR_CL_SINGLE_CONFIG = 0x101b,
  TSR_CL_VERSION = 0x102f,
  TSR_CL_QUEUE_CONTEXT = 0x1090,
  TSR_CL_QUEUE_DEVICE = 0x1091,
  TSR_CL_MEMORY_BYTES = 0x1102,
  TSR_CL_MEMORY_CONTEXT = 0x1106,
  TSR_CL_BUILD_LOG = 0x1183,
  TSR_CL_REGION = 0x1220,
  TSR_CL_READ_WRITE = 1,
  TSR_CL_ROUNDS_DIVISIONS = 1 << 7,
  TSR_CL_GPU = 1 << 2
};
#define TSR_CL_ANY UINT64_C(0xffffffff)

struct tsr_device {
  tsr_device_base base;
#define TSR_V(result, name, arguments) result(*name) arguments;
  TSR_OPENCL_FUNCTIONS(TSR_V)
#undef TSR_V
  void *id, *context;
  void** programs; /* of each module */
  void** kernels;  /* of each launch: arguments are set in them */
};

static size_t tsr_device_size(void) { return sizeof(tsr_device); }

static tsr_status tsr_cl_check(const char* what, int32_t code) {
  if (code == 0) return tsr_ok();
  return tsr_fail(TSR_RUN_FAILED, "%s: OpenCL error %d", what, (int)code);
}

static tsr_status tsr_cl_load(tsr_device* d) {
  void* library = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return tsr_fail(TSR_UNAVAILABLE, "no OpenCL: %s", dlerror());
#define TSR_V(result, name, arguments)              \
  *(void**)(void*)&d->name = dlsym(library, #name); \
  if (!d->name) return tsr_fail(TSR_UNAVAILABLE, "the OpenCL library has no " #name);
  TSR_OPENCL_FUNCTIONS(TSR_V)
#undef TSR_V
  return tsr_ok();
}

/* Device `index` of that type, counted over all platforms; *count: how many there are. */
static void* tsr_cl_find(tsr_device* d, uint64_t type, uint32_t index, uint32_t* count) {
  enum { TSR_CAPACITY = 64 };
  void *platforms[TSR_CAPACITY], *devices[TSR_CAPACITY], *found = NULL;
  uint32_t num_platforms = 0, p;
  *count = 0;
  if (d->clGetPlatformIDs(TSR_CAPACITY, platforms, &num_platforms) != 0) return NULL;
  for (p = 0; p < num_platforms && p < TSR_CAPACITY; ++p) {
    uint32_t here = 0;
    if (d->clGetDeviceIDs(platforms[p], type, TSR_CAPACITY, devices, &here) != 0) continue;
    if (here > TSR_CAPACITY) here = TSR_CAPACITY;
    if (index >= *count && index - *count < here) found = devices[index - *count];
    *count += here;
  }
  return found;
}

/* The device that was asked for and a context with a queue; those of the caller's queue if given.
 */
static tsr_status tsr_cl_choose(tsr_device* d, const tsr_open_options* options) {
  uint32_t count = 0;
  int32_t code = 0;
  if (options->queue) {
    code = d->clGetCommandQueueInfo(options->queue, TSR_CL_QUEUE_CONTEXT, sizeof(void*),
                                    &d->context, NULL);
    if (code == 0) {
      code = d->clGetCommandQueueInfo(options->queue, TSR_CL_QUEUE_DEVICE, sizeof(void*), &d->id,
                                      NULL);
    }
    if (code == 0) code = d->clRetainContext(d->context);
    if (code != 0) {
      d->context = NULL;
      return tsr_fail(TSR_INVALID_ARGUMENT, "the queue given: OpenCL error %d", (int)code);
    }
  } else {
    d->id = tsr_cl_find(d, TSR_CL_GPU, (uint32_t)options->device, &count);
    if (count == 0) d->id = tsr_cl_find(d, TSR_CL_ANY, (uint32_t)options->device, &count);
    if (!d->id) {
      return tsr_fail(TSR_UNAVAILABLE, "no OpenCL device %d: there are %u", (int)options->device,
                      (unsigned)count);
    }
    d->context = d->clCreateContext(NULL, 1, &d->id, NULL, NULL, &code);
    if (code != 0) return tsr_fail(TSR_UNAVAILABLE, "clCreateContext: OpenCL error %d", (int)code);
  }
  d->base.ordinal = options->device;
  d->base.stream = d->clCreateCommandQueue(d->context, d->id, 0, &code);
  return tsr_cl_check("clCreateCommandQueue", code);
}

static tsr_status tsr_cl_check_groups(tsr_device* d) {
  const tsr_device_program* program = d->base.program;
  size_t most = 0;
  int64_t i;
  d->clGetDeviceInfo(d->id, TSR_CL_MAX_GROUP, sizeof most, &most, NULL);
  for (i = 0; i < program->num_launches; ++i) {
    const uint32_t* block = program->launches[i].block;
    const size_t needed = (size_t)block[0] * block[1] * block[2];
    if (needed <= most) continue;
    return tsr_fail(TSR_UNSUPPORTED,
                    "%s needs groups of %lu work-items, the device has at most %lu",
                    program->common.info->name, (unsigned long)needed, (unsigned long)most);
  }
  return tsr_ok();
}

static tsr_status tsr_cl_build(tsr_device* d, int64_t m) {
  const tsr_module* module = &d->base.program->modules[m];
  const char* text = (const char*)d->base.program->code + module->text;
  const size_t bytes = (size_t)module->text_bytes;
  uint64_t config = 0;
  char version[128] = "", options[128] = "-cl-std=CL1.2";
  int32_t code = 0;
  d->programs[m] = d->clCreateProgramWithSource(d->context, 1, &text, &bytes, &code);
  if (code != 0) return tsr_cl_check("clCreateProgramWithSource", code);
  d->clGetDeviceInfo(d->id, TSR_CL_SINGLE_CONFIG, sizeof config, &config, NULL);
  if (config & TSR_CL_ROUNDS_DIVISIONS) strcat(options, " -cl-fp32-correctly-rounded-divide-sqrt");
  /* Its optimizer breaks what threads keep across barriers where only some of them change it. */
  d->clGetDeviceInfo(d->id, TSR_CL_VERSION, sizeof version - 1, version, NULL);
  if (strstr(version, "PoCL") || strstr(version, "pocl")) strcat(options, " -cl-opt-disable");
  code = d->clBuildProgram(d->programs[m], 1, &d->id, options, NULL, NULL);
  if (code != 0) {
    char log[400] = "";
    d->clGetProgramBuildInfo(d->programs[m], d->id, TSR_CL_BUILD_LOG, sizeof log - 1, log, NULL);
    return tsr_fail(TSR_BUILD_FAILED, "clBuildProgram: OpenCL error %d\n%s", (int)code, log);
  }
  return tsr_ok();
}

static tsr_status tsr_device_open(tsr_device* d, const tsr_open_options* options) {
  const tsr_device_program* program = d->base.program;
  tsr_status status = tsr_cl_load(d);
  int64_t i;
  if (status.code == TSR_OK) status = tsr_cl_choose(d, options);
  if (status.code == TSR_OK) status = tsr_cl_check_groups(d);
  if (status.code != TSR_OK) return status;
  d->programs = (void**)calloc((size_t)program->num_modules + 1, sizeof(void*));
  d->kernels = (void**)calloc((size_t)program->num_launches + 1, sizeof(void*));
  if (!d->programs || !d->kernels) return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for the kernels");
  for (i = 0; status.code == TSR_OK && i < program->num_modules; ++i) status = tsr_cl_build(d, i);
  for (i = 0; status.code == TSR_OK && i < program->num_launches; ++i) {
    const tsr_launch* launch = &program->launches[i];
    int32_t code = 0;
    d->kernels[i] = d->clCreateKernel(d->programs[launch->module], launch->kernel, &code);
    if (code != 0) {
      status = tsr_fail(TSR_BUILD_FAILED, "%s: OpenCL error %d", launch->kernel, (int)code);
    }
  }
  return status;
}

/* Some drivers touch the arguments of a kernel when it goes: it goes before the memory does. */
static void tsr_device_drop_kernels(tsr_device* d) {
  int64_t i;
  if (d->base.stream) d->clFinish(d->base.stream);
  for (i = 0; d->kernels && i < d->base.program->num_launches; ++i) {
    if (d->kernels[i]) d->clReleaseKernel(d->kernels[i]);
  }
  free(d->kernels);
  d->kernels = NULL;
}

static void tsr_device_close(tsr_device* d) {
  int64_t i;
  for (i = 0; d->programs && i < d->base.program->num_modules; ++i) {
    if (d->programs[i]) d->clReleaseProgram(d->programs[i]);
  }
  if (d->base.stream) d->clReleaseCommandQueue(d->base.stream);
  if (d->context) d->clReleaseContext(d->context);
  free(d->programs);
}

static tsr_status tsr_device_enter(tsr_device* d) {
  (void)d;
  return tsr_ok();
}

static void tsr_device_leave(tsr_device* d) { (void)d; }

static tsr_status tsr_device_allocate(tsr_device* d, int64_t bytes, void** memory) {
  int32_t code = 0;
  uint64_t most = 0;
  /* Some drivers find out that memory is not there when it is first used. */
  d->clGetDeviceInfo(d->id, TSR_CL_MEMORY, sizeof most, &most, NULL);
  if (most > 0 && (uint64_t)bytes > most)
    return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for %lld bytes on the device, which has %llu",
                    (long long)bytes, (unsigned long long)most);
  *memory = d->clCreateBuffer(d->context, TSR_CL_READ_WRITE, (size_t)bytes, NULL, &code);
  if (code == 0) return tsr_ok();
  return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for %lld bytes on the device: OpenCL error %d",
                  (long long)bytes, (int)code);
}

static void tsr_device_free(tsr_device* d, void* memory, int is_part) {
  (void)is_part;
  d->clReleaseMemObject(memory);
}

static tsr_status tsr_device_part(tsr_device* d, void* memory, int64_t offset, int64_t bytes,
                                  void** part) {
  const size_t region[2] = {(size_t)offset, (size_t)bytes};
  int32_t code = 0;
  *part = d->clCreateSubBuffer(memory, TSR_CL_READ_WRITE, TSR_CL_REGION, region, &code);
  return tsr_cl_check("clCreateSubBuffer", code);
}

static tsr_status tsr_device_check(tsr_device* d, const tsr_tensor_info* tensor, void* memory) {
  void* context = NULL;
  size_t bytes = 0;
  int32_t code =
      d->clGetMemObjectInfo(memory, TSR_CL_MEMORY_CONTEXT, sizeof context, &context, NULL);
  if (code == 0) {
    code = d->clGetMemObjectInfo(memory, TSR_CL_MEMORY_BYTES, sizeof bytes, &bytes, NULL);
  }
  if (code != 0 || context != d->context) {
    return tsr_fail(TSR_INVALID_ARGUMENT,
                    "%s is of another OpenCL context: open the model with a queue of that one",
                    tensor->name);
  }
  if ((int64_t)bytes >= tensor->bytes) return tsr_ok();
  return tsr_fail(TSR_INVALID_ARGUMENT, "%s needs %lld bytes, its cl_mem has %lld", tensor->name,
                  (long long)tensor->bytes, (long long)bytes);
}

static int tsr_device_in_place(const void* memory) {
  (void)memory;
  return 1;
}

static tsr_status tsr_device_upload(tsr_device* d, void* stream, void* to, const void* from,
                                    int64_t bytes) {
  return tsr_cl_check(
      "clEnqueueWriteBuffer",
      d->clEnqueueWriteBuffer(stream, to, 0, 0, (size_t)bytes, from, 0, NULL, NULL));
}

static tsr_status tsr_device_download(tsr_device* d, void* stream, void* to, void* from,
                                      int64_t bytes) {
  return tsr_cl_check("clEnqueueReadBuffer",
                      d->clEnqueueReadBuffer(stream, from, 0, 0, (size_t)bytes, to, 0, NULL, NULL));
}

static tsr_status tsr_device_copy(tsr_device* d, void* stream, void* to, void* from,
                                  int64_t from_offset, int64_t bytes) {
  return tsr_cl_check("clEnqueueCopyBuffer",
                      d->clEnqueueCopyBuffer(stream, from, to, (size_t)from_offset, 0,
                                             (size_t)bytes, 0, NULL, NULL));
}

static tsr_status tsr_device_launch(tsr_device* d, void* stream, int64_t i, void** memory) {
  const tsr_launch* launch = &d->base.program->launches[i];
  const int32_t* places = d->base.program->arguments + launch->first_argument;
  size_t items[3], group[3];
  int32_t a;
  for (a = 0; a < launch->num_arguments; ++a) {
    const tsr_status set = tsr_cl_check(
        launch->kernel,
        d->clSetKernelArg(d->kernels[i], (uint32_t)a, sizeof(void*), &memory[places[a]]));
    if (set.code != TSR_OK) return set;
  }
  for (a = 0; a < 3; ++a) {
    group[a] = launch->block[a];
    items[a] = group[a] * launch->grid[a];
  }
  return tsr_cl_check(launch->kernel, d->clEnqueueNDRangeKernel(stream, d->kernels[i], 3, NULL,
                                                                items, group, 0, NULL, NULL));
}

static tsr_status tsr_device_run(tsr_device* d, void* stream, tsr_context* context,
                                 void* const* slots) {
  (void)d;
  (void)slots;
  return tsr_enqueue(context, stream);
}

static tsr_status tsr_device_wait(tsr_device* d, void* stream) {
  return tsr_cl_check("clFinish", d->clFinish(stream));
}
