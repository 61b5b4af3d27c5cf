/* NVIDIA GPUs through the driver's library, which is loaded when a model is opened. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "tessera/backend/artifact/runtime/device.h"
#include "tessera/backend/artifact/runtime/status.c"

/* Every function that is used, with the symbol that has this signature. Handles are pointers, a
 * CUdeviceptr is as wide as one. */
#define TSR_CUDA_FUNCTIONS(V)                                                                   \
  V(init, "cuInit", (unsigned flags))                                                           \
  V(error_name, "cuGetErrorName", (int status, const char** name))                              \
  V(error_text, "cuGetErrorString", (int status, const char** text))                            \
  V(device_count, "cuDeviceGetCount", (int* count))                                             \
  V(device_get, "cuDeviceGet", (int* device, int ordinal))                                      \
  V(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))          \
  V(context_retain, "cuDevicePrimaryCtxRetain", (void** context, int device))                   \
  V(context_release, "cuDevicePrimaryCtxRelease_v2", (int device))                              \
  V(context_push, "cuCtxPushCurrent_v2", (void* context))                                       \
  V(context_pop, "cuCtxPopCurrent_v2", (void** context))                                        \
  V(memory_allocate, "cuMemAlloc_v2", (void** memory, size_t bytes))                            \
  V(memory_free, "cuMemFree_v2", (void* memory))                                                \
  V(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                     \
    (void* to, const void* from, size_t bytes, void* stream))                                   \
  V(copy_to_host, "cuMemcpyDtoHAsync_v2", (void* to, void* from, size_t bytes, void* stream))   \
  V(copy_on_device, "cuMemcpyDtoDAsync_v2", (void* to, void* from, size_t bytes, void* stream)) \
  V(pointer_attribute, "cuPointerGetAttribute", (void* value, int attribute, void* memory))     \
  V(module_load, "cuModuleLoadDataEx",                                                          \
    (void** module, const void* image, unsigned count, int* options, void** values))            \
  V(module_unload, "cuModuleUnload", (void* module))                                            \
  V(module_function, "cuModuleGetFunction", (void** function, void* module, const char* name))  \
  V(function_get, "cuFuncGetAttribute", (int* value, int attribute, void* function))            \
  V(function_set, "cuFuncSetAttribute", (void* function, int attribute, int value))             \
  V(launch, "cuLaunchKernel",                                                                   \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,       \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream, void** arguments, \
     void** extra))                                                                             \
  V(stream_create, "cuStreamCreate", (void** stream, unsigned flags))                           \
  V(stream_destroy, "cuStreamDestroy_v2", (void* stream))                                       \
  V(stream_wait, "cuStreamSynchronize", (void* stream))                                         \
  V(capture_begin, "cuStreamBeginCapture_v2", (void* stream, int mode))                         \
  V(capture_end, "cuStreamEndCapture", (void* stream, void** graph))                            \
  V(graph_instantiate, "cuGraphInstantiateWithFlags",                                           \
    (void** exec, void* graph, unsigned long long flags))                                       \
  V(graph_launch, "cuGraphLaunch", (void* exec, void* stream))                                  \
  V(graph_destroy, "cuGraphDestroy", (void* graph))                                             \
  V(graph_exec_destroy, "cuGraphExecDestroy", (void* exec))

/* Numbers of CUDA's header. */
enum {
  TSR_CU_CAPABILITY_MAJOR = 75,
  TSR_CU_CAPABILITY_MINOR = 76,
  TSR_CU_ERROR_LOG = 5,
  TSR_CU_ERROR_LOG_BYTES = 6,
  TSR_CU_POINTER_DEVICE = 9,
  TSR_CU_REGISTERS = 4,
  TSR_CU_MAX_DYNAMIC_SHARED = 8,
  TSR_CU_CAPTURE_THREAD_LOCAL = 1,
  TSR_CU_NON_BLOCKING = 1,
  TSR_CU_PROGRAMMATIC_SERIALISATION = 6,
  TSR_CU_PROGRAMMATIC_PORT = 1,
  TSR_CU_PROGRAMMATIC_EDGE = 1
};

/* CUlaunchAttribute and CUlaunchConfig. */
typedef struct tsr_launch_attribute {
  int32_t id, pad;
  int64_t value[8]; /* of the first, four bytes are an int */
} tsr_launch_attribute;

typedef struct tsr_launch_config {
  uint32_t grid[3], block[3], shared_bytes;
  void* stream;
  tsr_launch_attribute* attributes;
  uint32_t num_attributes;
} tsr_launch_config;

/* CUDA_KERNEL_NODE_PARAMS_v2 and CUgraphEdgeData. */
typedef struct tsr_kernel_node {
  void* function;
  uint32_t grid[3], block[3], shared_bytes;
  void **arguments, **extra;
  void *kernel, *context;
} tsr_kernel_node;

typedef struct tsr_edge_data {
  unsigned char from_port, to_port, type, reserved[5];
} tsr_edge_data;

/* A whole run as a graph, for inputs and outputs at these addresses. */
typedef struct tsr_recording {
  void** slots;  /* NULL: unused */
  void* exec;    /* NULL: they were seen once; what comes again is worth recording */
  uint64_t used; /* when */
} tsr_recording;

enum { TSR_RECORDINGS = 8 };

struct tsr_device {
  tsr_device_base base;
#define TSR_V(name, symbol, arguments) int(*name) arguments;
  TSR_CUDA_FUNCTIONS(TSR_V)
#undef TSR_V
  /* cuLaunchKernelEx; NULL where the driver is older */
  int (*launch_with)(const tsr_launch_config* config, void* function, void** arguments,
                     void** extra);
  /* cuGraphCreate, cuGraphAddKernelNode_v2, cuGraphAddDependencies_v2; the last one is NULL where
   * the driver is older, and for models without branches. */
  int (*graph_create)(void** graph, unsigned flags);
  int (*graph_add_kernel)(void** node, void* graph, void* const* after, size_t count,
                          const tsr_kernel_node* kernel);
  int (*graph_add_edges)(void* graph, void* const* from, void* const* to, const tsr_edge_data* data,
                         size_t count);
  int recording;
  void* graph;  /* that launches are added to; NULL: they go to a stream */
  void** nodes; /* of each launch */
  int id;
  void* context;
  void** modules;
  void** functions; /* of each launch */
  void** arguments; /* of one launch */
  tsr_recording recordings[TSR_RECORDINGS];
  uint64_t runs;
};

static size_t tsr_device_size(void) { return sizeof(tsr_device); }

static tsr_status tsr_cu_fail(tsr_device* d, int32_t code, const char* what, int status) {
  const char *name = NULL, *text = NULL;
  if (d->error_name(status, &name) != 0 || !name) name = "an unknown error";
  if (d->error_text(status, &text) != 0 || !text) text = "";
  return tsr_fail(code, "%s: %s (%s)", what, text, name);
}

static tsr_status tsr_cu_check(tsr_device* d, const char* what, int status) {
  return status == 0 ? tsr_ok() : tsr_cu_fail(d, TSR_RUN_FAILED, what, status);
}

static tsr_status tsr_cu_load(tsr_device* d) {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!library) return tsr_fail(TSR_UNAVAILABLE, "no CUDA driver: %s", dlerror());
#define TSR_V(name, symbol, arguments)               \
  *(void**)(void*)&d->name = dlsym(library, symbol); \
  if (!d->name) return tsr_fail(TSR_UNAVAILABLE, "the CUDA driver is too old: no " symbol);
  TSR_CUDA_FUNCTIONS(TSR_V)
#undef TSR_V
  *(void**)(void*)&d->launch_with = dlsym(library, "cuLaunchKernelEx");
  *(void**)(void*)&d->graph_create = dlsym(library, "cuGraphCreate");
  *(void**)(void*)&d->graph_add_kernel = dlsym(library, "cuGraphAddKernelNode_v2");
  *(void**)(void*)&d->graph_add_edges = dlsym(library, "cuGraphAddDependencies_v2");
  if (!d->graph_create || !d->graph_add_kernel) d->graph_add_edges = NULL;
  /* Copies are only recorded from a stream. */
  if (!d->base.program->after || d->base.program->common.num_copies > 0) d->graph_add_edges = NULL;
  return tsr_ok();
}

static tsr_status tsr_cu_choose(tsr_device* d, int32_t ordinal) {
  const tsr_device_program* program = d->base.program;
  int count = 0, major = 0, minor = 0;
  int status = d->init(0);
  if (status == 0) status = d->device_count(&count);
  if (status != 0) {
    return tsr_cu_fail(d, TSR_UNAVAILABLE, "no CUDA device: the driver says", status);
  }
  if (ordinal < 0 || ordinal >= count || d->device_get(&d->id, ordinal) != 0) {
    return tsr_fail(TSR_UNAVAILABLE, "no CUDA device %d: there are %d", (int)ordinal, count);
  }
  d->base.ordinal = ordinal;
  d->device_attribute(&major, TSR_CU_CAPABILITY_MAJOR, d->id);
  d->device_attribute(&minor, TSR_CU_CAPABILITY_MINOR, d->id);
  if (10 * major + minor < program->capability) {
    return tsr_fail(TSR_UNSUPPORTED,
                    "%s was compiled for compute capability %d.%d, the device has %d.%d",
                    program->common.info->name, (int)program->capability / 10,
                    (int)program->capability % 10, major, minor);
  }
  status = d->context_retain(&d->context, d->id);
  if (status != 0) {
    d->context = NULL;
    return tsr_cu_fail(d, TSR_UNAVAILABLE, "cuDevicePrimaryCtxRetain", status);
  }
  return tsr_ok();
}

static tsr_status tsr_cu_assemble(tsr_device* d, int64_t m) {
  const tsr_module* module = &d->base.program->modules[m];
  const unsigned char* code = d->base.program->code;
  char log[400] = "";
  int options[2] = {TSR_CU_ERROR_LOG, TSR_CU_ERROR_LOG_BYTES};
  void* values[2];
  tsr_status failed;
  int status;
  /* A newer device or an older driver than the assembler takes the text. */
  if (module->binary_bytes > 0 &&
      d->module_load(&d->modules[m], code + module->binary, 0, NULL, NULL) == 0) {
    return tsr_ok();
  }
  values[0] = log;
  values[1] = (void*)(uintptr_t)(sizeof log - 1);
  status = d->module_load(&d->modules[m], code + module->text, 2, options, values);
  if (status == 0) return tsr_ok();
  d->modules[m] = NULL;
  failed = tsr_cu_fail(d, TSR_BUILD_FAILED, "cuModuleLoadDataEx", status);
  return log[0] == '\0' ? failed : tsr_fail(TSR_BUILD_FAILED, "%.90s\n%s", failed.message, log);
}

static tsr_status tsr_cu_find_kernel(tsr_device* d, int64_t i) {
  const tsr_launch* launch = &d->base.program->launches[i];
  int registers = 0;
  int status = d->module_function(&d->functions[i], d->modules[launch->module], launch->kernel);
  /* Beyond 48 KiB shared memory has to be asked for. */
  if (status == 0 && launch->shared_bytes > 0) {
    status = d->function_set(d->functions[i], TSR_CU_MAX_DYNAMIC_SHARED, (int)launch->shared_bytes);
  }
  /* Asking loads it now: a launch that is recorded must not. */
  if (status == 0) status = d->function_get(&registers, TSR_CU_REGISTERS, d->functions[i]);
  return status == 0 ? tsr_ok() : tsr_cu_fail(d, TSR_BUILD_FAILED, launch->kernel, status);
}

static tsr_status tsr_device_open(tsr_device* d, const tsr_open_options* options) {
  const tsr_device_program* program = d->base.program;
  tsr_status status = tsr_cu_load(d);
  int64_t i;
  if (status.code == TSR_OK) status = tsr_cu_choose(d, options->device);
  if (status.code != TSR_OK) return status;
  d->modules = (void**)calloc((size_t)program->num_modules + 1, sizeof(void*));
  d->functions = (void**)calloc((size_t)program->num_launches + 1, sizeof(void*));
  d->arguments = (void**)calloc((size_t)program->max_arguments + 3, sizeof(void*));
  d->nodes = (void**)calloc((size_t)program->num_launches + 1, sizeof(void*));
  if (!d->modules || !d->functions || !d->arguments || !d->nodes) {
    return tsr_fail(TSR_OUT_OF_MEMORY, "no memory for the kernels");
  }
  status = tsr_device_enter(d);
  if (status.code != TSR_OK) return status;
  status =
      tsr_cu_check(d, "cuStreamCreate", d->stream_create(&d->base.stream, TSR_CU_NON_BLOCKING));
  for (i = 0; status.code == TSR_OK && i < program->num_modules; ++i)
    status = tsr_cu_assemble(d, i);
  for (i = 0; status.code == TSR_OK && i < program->num_launches; ++i)
    status = tsr_cu_find_kernel(d, i);
  tsr_device_leave(d);
  return status;
}

static void tsr_device_drop_kernels(tsr_device* d) {
  int i;
  for (i = 0; i < TSR_RECORDINGS; ++i) {
    if (d->recordings[i].exec) d->graph_exec_destroy(d->recordings[i].exec);
    d->recordings[i].exec = NULL;
  }
}

static void tsr_device_close(tsr_device* d) {
  const tsr_device_program* program = d->base.program;
  int64_t i;
  if (tsr_device_enter(d).code == TSR_OK) {
    for (i = 0; d->modules && i < program->num_modules; ++i) {
      if (d->modules[i]) d->module_unload(d->modules[i]);
    }
    if (d->base.stream) d->stream_destroy(d->base.stream);
    tsr_device_leave(d);
  }
  if (d->context) d->context_release(d->id);
  for (i = 0; i < TSR_RECORDINGS; ++i) free(d->recordings[i].slots);
  free(d->modules);
  free(d->functions);
  free(d->arguments);
  free(d->nodes);
}

static tsr_status tsr_device_enter(tsr_device* d) {
  if (!d->context) return tsr_fail(TSR_UNAVAILABLE, "no CUDA device is open");
  return tsr_cu_check(d, "cuCtxPushCurrent", d->context_push(d->context));
}

static void tsr_device_leave(tsr_device* d) {
  void* ours = NULL;
  d->context_pop(&ours);
}

static tsr_status tsr_device_allocate(tsr_device* d, int64_t bytes, void** memory) {
  const int status = d->memory_allocate(memory, (size_t)bytes);
  if (status == 0) return tsr_ok();
  *memory = NULL;
  return tsr_cu_fail(d, TSR_OUT_OF_MEMORY, "no memory on the device", status);
}

static void tsr_device_free(tsr_device* d, void* memory, int is_part) {
  if (!is_part) d->memory_free(memory);
}

static tsr_status tsr_device_part(tsr_device* d, void* memory, int64_t offset, int64_t bytes,
                                  void** part) {
  (void)d;
  (void)bytes;
  *part = (unsigned char*)memory + offset;
  return tsr_ok();
}

static tsr_status tsr_device_check(tsr_device* d, const tsr_tensor_info* tensor, void* memory) {
  int ordinal = 0;
  if (d->pointer_attribute(&ordinal, TSR_CU_POINTER_DEVICE, memory) == 0) return tsr_ok();
  return tsr_fail(TSR_INVALID_ARGUMENT, "%s is not in memory of the device", tensor->name);
}

static int tsr_device_in_place(const void* memory) { return tsr_aligned(memory); }

static tsr_status tsr_device_upload(tsr_device* d, void* stream, void* to, const void* from,
                                    int64_t bytes) {
  return tsr_cu_check(d, "cuMemcpyHtoD", d->copy_to_device(to, from, (size_t)bytes, stream));
}

static tsr_status tsr_device_download(tsr_device* d, void* stream, void* to, void* from,
                                      int64_t bytes) {
  return tsr_cu_check(d, "cuMemcpyDtoH", d->copy_to_host(to, from, (size_t)bytes, stream));
}

static tsr_status tsr_device_copy(tsr_device* d, void* stream, void* to, void* from,
                                  int64_t from_offset, int64_t bytes) {
  return tsr_cu_check(
      d, "cuMemcpyDtoD",
      d->copy_on_device(to, (unsigned char*)from + from_offset, (size_t)bytes, stream));
}

/* As soon as all blocks of the kernel before it have ended; it waits for what they wrote itself. */
static int tsr_cu_launch_early(tsr_device* d, void* stream, int64_t i) {
  const tsr_launch* l = &d->base.program->launches[i];
  tsr_launch_attribute early;
  tsr_launch_config config;
  const int32_t on = 1;
  memset(&early, 0, sizeof early);
  memset(&config, 0, sizeof config);
  early.id = TSR_CU_PROGRAMMATIC_SERIALISATION;
  memcpy(early.value, &on, sizeof on);
  memcpy(config.grid, l->grid, sizeof config.grid);
  memcpy(config.block, l->block, sizeof config.block);
  config.shared_bytes = l->shared_bytes;
  config.stream = stream;
  config.attributes = &early;
  config.num_attributes = 1;
  return d->launch_with(&config, d->functions[i], d->arguments, NULL);
}

/* Behind those that it comes after; kernels that wait begin before these have ended. */
static tsr_status tsr_cu_add_node(tsr_device* d, int64_t i) {
  const tsr_launch* l = &d->base.program->launches[i];
  const int32_t* after = d->base.program->after + l->first_after;
  tsr_kernel_node kernel;
  tsr_edge_data edge;
  int32_t a;
  int status;
  memset(&kernel, 0, sizeof kernel);
  memset(&edge, 0, sizeof edge);
  kernel.function = d->functions[i];
  memcpy(kernel.grid, l->grid, sizeof kernel.grid);
  memcpy(kernel.block, l->block, sizeof kernel.block);
  kernel.shared_bytes = l->shared_bytes;
  kernel.arguments = d->arguments;
  if (l->waits) {
    edge.from_port = TSR_CU_PROGRAMMATIC_PORT;
    edge.type = TSR_CU_PROGRAMMATIC_EDGE;
  }
  status = d->graph_add_kernel(&d->nodes[i], d->graph, NULL, 0, &kernel);
  for (a = 0; status == 0 && a < l->num_after; ++a)
    status = d->graph_add_edges(d->graph, &d->nodes[after[a]], &d->nodes[i], &edge, 1);
  return tsr_cu_check(d, l->kernel, status);
}

static tsr_status tsr_device_launch(tsr_device* d, void* stream, int64_t i, void** memory) {
  const tsr_launch* l = &d->base.program->launches[i];
  const int32_t* places = d->base.program->arguments + l->first_argument;
  static void* nothing = NULL; /* to fetch for kernels behind it; others do not look at it */
  int32_t a;
  for (a = 0; a < l->num_arguments; ++a) d->arguments[a] = &memory[places[a]];
  d->arguments[a] = d->arguments[a + 1] = d->arguments[a + 2] = &nothing;
  if (d->graph) return tsr_cu_add_node(d, i);
  /* Not on a caller's stream: its kernels need not wait for those before them. */
  if (d->recording && l->waits && d->launch_with)
    return tsr_cu_check(d, l->kernel, tsr_cu_launch_early(d, stream, i));
  return tsr_cu_check(
      d, l->kernel,
      d->launch(d->functions[i], l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                l->block[2], l->shared_bytes, stream, d->arguments, NULL));
}

/* On the stream of our own: the caller's may hold work that must not be recorded. */
static tsr_status tsr_cu_record(tsr_device* d, tsr_context* context, void** exec) {
  void* graph = NULL;
  tsr_status status = tsr_cu_check(d, "cuStreamBeginCapture",
                                   d->capture_begin(d->base.stream, TSR_CU_CAPTURE_THREAD_LOCAL));
  int ended;
  if (status.code != TSR_OK) return status;
  d->recording = 1;
  status = tsr_enqueue(context, d->base.stream);
  d->recording = 0;
  ended = d->capture_end(d->base.stream, &graph);
  if (status.code == TSR_OK) status = tsr_cu_check(d, "cuStreamEndCapture", ended);
  if (status.code == TSR_OK) {
    status = tsr_cu_check(d, "cuGraphInstantiate", d->graph_instantiate(exec, graph, 0));
  }
  if (graph) d->graph_destroy(graph);
  if (status.code != TSR_OK) *exec = NULL;
  return status;
}

/* The same with branches that run side by side. */
static tsr_status tsr_cu_fork_and_join(tsr_device* d, tsr_context* context, void** exec) {
  tsr_status status = tsr_cu_check(d, "cuGraphCreate", d->graph_create(&d->graph, 0));
  if (status.code != TSR_OK) {
    d->graph = NULL; /* whatever it wrote: kernels are launched then */
    return status;
  }
  status = tsr_enqueue(context, d->base.stream);
  if (status.code == TSR_OK) {
    status = tsr_cu_check(d, "cuGraphInstantiate", d->graph_instantiate(exec, d->graph, 0));
  }
  d->graph_destroy(d->graph);
  d->graph = NULL;
  if (status.code != TSR_OK) *exec = NULL;
  return status;
}

/* That of these addresses, or the one that was not used for longest. */
static tsr_recording* tsr_cu_find(tsr_device* d, void* const* slots, size_t bytes) {
  tsr_recording* oldest = &d->recordings[0];
  int32_t i;
  for (i = 0; i < TSR_RECORDINGS; ++i) {
    tsr_recording* r = &d->recordings[i];
    if (r->slots && memcmp(r->slots, slots, bytes) == 0) return r;
    if (r->used < oldest->used) oldest = r;
  }
  return oldest;
}

/* A graph: on a stream, small kernels would take as long as it takes to start them. */
static tsr_status tsr_device_run(tsr_device* d, void* stream, tsr_context* context,
                                 void* const* slots) {
  const tsr_model_info* info = d->base.program->common.info;
  const size_t bytes = (size_t)(info->num_inputs + info->num_outputs) * sizeof(void*);
  tsr_recording* r = tsr_cu_find(d, slots, bytes);
  r->used = ++d->runs;
  if (!r->slots || memcmp(r->slots, slots, bytes) != 0) {
    if (r->exec) d->graph_exec_destroy(r->exec);
    r->exec = NULL;
    if (!r->slots) r->slots = (void**)malloc(bytes + 1);
    if (r->slots) memcpy(r->slots, slots, bytes);
    return tsr_enqueue(context, stream);
  }
  if (!r->exec && d->graph_add_edges && tsr_cu_fork_and_join(d, context, &r->exec).code != TSR_OK) {
    d->graph_add_edges = NULL; /* one after the other, then */
  }
  if (!r->exec) {
    tsr_status status = tsr_cu_record(d, context, &r->exec);
    if (status.code != TSR_OK && d->launch_with) { /* perhaps not in graphs */
      int (*const launch_with)(const tsr_launch_config*, void*, void**, void**) = d->launch_with;
      d->launch_with = NULL;
      status = tsr_cu_record(d, context, &r->exec);
      if (status.code != TSR_OK) d->launch_with = launch_with; /* that was not the reason */
    }
    if (status.code != TSR_OK) return status;
  }
  return tsr_cu_check(d, "cuGraphLaunch", d->graph_launch(r->exec, stream));
}

static tsr_status tsr_device_wait(tsr_device* d, void* stream) {
  return tsr_cu_check(d, "the kernels", d->stream_wait(stream));
}
