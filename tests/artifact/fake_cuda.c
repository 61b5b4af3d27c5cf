/* A CUDA driver without a device, for what an artifact does around its kernels: memory is that of
 * the process, copies are made, kernels compute nothing. Says on stderr what it was asked for. The
 * variables FAKE_CUDA_DEVICES, FAKE_CUDA_CAPABILITY and FAKE_CUDA_FAIL (a function;
 * cuGraphInstantiate: of graphs that were not recorded) change it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAKE_MOST = 1 << 12 };

typedef struct {
  void* to;
  const void* from;
  size_t bytes; /* 0: a kernel */
} fake_work;

typedef struct {
  fake_work work[FAKE_MOST];
  int count, created;
} fake_graph;

static fake_graph recorded;
static int recording, contexts;

static int fails(const char* function) {
  const char* named = getenv("FAKE_CUDA_FAIL");
  return named && strcmp(named, function) == 0 ? 2 : 0;
}

static int number(const char* variable, int otherwise) {
  const char* text = getenv(variable);
  return text ? atoi(text) : otherwise;
}

static int work(void* to, const void* from, size_t bytes) {
  if (recording) {
    fake_work* w = &recorded.work[recorded.count++];
    w->to = to;
    w->from = from;
    w->bytes = bytes;
  } else if (bytes > 0) {
    memcpy(to, from, bytes);
  }
  return 0;
}

int cuInit(unsigned flags) { return (int)flags + fails("cuInit"); }
int cuGetErrorName(int status, const char** name) {
  *name = status == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR";
  return 0;
}
int cuGetErrorString(int status, const char** text) {
  (void)status;
  *text = "as asked";
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = number("FAKE_CUDA_DEVICES", 1);
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int capability = number("FAKE_CUDA_CAPABILITY", 90);
  (void)device;
  *value = attribute == 75 ? capability / 10 : capability % 10;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) {
  *context = &contexts;
  (void)device;
  return 0;
}
int cuDevicePrimaryCtxRelease_v2(int device) {
  fprintf(stderr, "released %d, %d entered\n", device, contexts);
  return 0;
}
int cuCtxPushCurrent_v2(void* context) {
  ++*(int*)context;
  return 0;
}
int cuCtxPopCurrent_v2(void** context) {
  *context = &contexts;
  --contexts;
  return 0;
}
int cuMemAlloc_v2(void** memory, size_t bytes) {
  if (fails("cuMemAlloc")) return 2;
  *memory = aligned_alloc(512, (bytes + 511) / 512 * 512);
  return 0;
}
int cuMemFree_v2(void* memory) {
  free(memory);
  return 0;
}
int cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  return work(to, from, bytes);
}
int cuMemcpyDtoHAsync_v2(void* to, void* from, size_t bytes, void* stream) {
  (void)stream;
  return work(to, from, bytes);
}
int cuMemcpyDtoDAsync_v2(void* to, void* from, size_t bytes, void* stream) {
  (void)stream;
  return work(to, from, bytes);
}
int cuPointerGetAttribute(void* value, int attribute, void* memory) {
  *(int*)value = 0;
  return memory == NULL || attribute != 9;
}
int cuModuleLoadDataEx(void** module, const void* image, unsigned count, int* options,
                       void** values) {
  const int text = strstr((const char*)image, ".version") != NULL;
  fprintf(stderr, "module %s\n", text ? "text" : "binary");
  *module = (void*)(uintptr_t)image;
  if (!fails("cuModuleLoadDataEx")) return 0;
  if (count == 2 && options[0] == 5) strcpy((char*)values[0], "line 7 is wrong");
  return 2;
}
int cuModuleUnload(void* module) { return module == NULL; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  *function = module;
  return name[0] == '\0';
}
int cuFuncGetAttribute(int* value, int attribute, void* function) {
  *value = 1;
  return function == NULL || attribute != 4;
}
int cuFuncSetAttribute(void* function, int attribute, int value) {
  return function == NULL || attribute != 8 || value <= 0;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, void* stream, void** arguments, void** extra) {
  (void)shared;
  if (fails("cuLaunchKernel")) return 2;
  fprintf(stderr, recording ? "recorded\n" : "launched\n");
  if (!function || !stream || !arguments || extra || gx * gy * gz * bx * by * bz == 0) return 1;
  return work(NULL, *(void**)arguments[0], 0);
}
typedef struct {
  int id, pad, value[16];
} fake_attribute;
typedef struct {
  unsigned grid[3], block[3], shared;
  void* stream;
  const fake_attribute* attributes;
  unsigned count;
} fake_config;
int cuLaunchKernelEx(const fake_config* c, void* function, void** arguments, void** extra) {
  if (fails("cuLaunchKernelEx")) return 2;
  if (!recording || c->count != 1 || c->attributes->id != 6 || c->attributes->value[0] != 1)
    return 1;
  fprintf(stderr, "early\n");
  return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1],
                        c->block[2], c->shared, c->stream, arguments, extra);
}
int cuStreamCreate(void** stream, unsigned flags) {
  *stream = malloc(1);
  return flags != 1;
}
int cuStreamDestroy_v2(void* stream) {
  free(stream);
  return 0;
}
int cuStreamSynchronize(void* stream) { return stream == NULL; }
int cuStreamBeginCapture_v2(void* stream, int mode) {
  recording = 1;
  recorded.count = 0;
  return stream == NULL || mode != 1;
}
int cuStreamEndCapture(void* stream, void** graph) {
  recording = 0;
  *graph = malloc(sizeof recorded);
  memcpy(*graph, &recorded, sizeof recorded);
  return stream == NULL;
}
/* A node is one more than the kernels before it. */
int cuGraphCreate(void** graph, unsigned flags) {
  *graph = &recorded;
  if (fails("cuGraphCreate")) return 2;
  *graph = calloc(1, sizeof recorded);
  ((fake_graph*)*graph)->created = 1;
  return flags != 0;
}
typedef struct {
  void* function;
  unsigned grid[3], block[3], shared;
  void **arguments, **extra, *kernel, *context;
} fake_node;
int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* after, size_t count,
                            const fake_node* n) {
  if (fails("cuGraphAddKernelNode_v2")) return 2;
  if (!n->function || !n->arguments || n->extra || n->kernel || n->context || after || count)
    return 1;
  *node = (void*)(intptr_t)++((fake_graph*)graph)->count;
  fprintf(stderr, "node\n");
  return n->grid[0] * n->grid[1] * n->grid[2] * n->block[0] * n->block[1] * n->block[2] == 0;
}
typedef struct {
  unsigned char from_port, to_port, type, reserved[5];
} fake_edge;
int cuGraphAddDependencies_v2(void* graph, void* const* from, void* const* to,
                              const fake_edge* edge, size_t count) {
  if (fails("cuGraphAddDependencies_v2")) return 2;
  fprintf(stderr, "edge %d %d\n", (int)(intptr_t)*from, (int)(intptr_t)*to);
  return !graph || count != 1 || edge->from_port != 1 || edge->to_port != 0 || edge->type != 1;
}
int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long flags) {
  if (((fake_graph*)graph)->created && fails("cuGraphInstantiate")) return 2;
  *exec = malloc(sizeof recorded);
  memcpy(*exec, graph, sizeof recorded);
  return flags != 0;
}
int cuGraphLaunch(void* exec, void* stream) {
  const fake_graph* graph = (const fake_graph*)exec;
  int i;
  fprintf(stderr, "replayed\n");
  for (i = 0; i < graph->count; ++i) {
    work(graph->work[i].to, graph->work[i].from, graph->work[i].bytes);
  }
  return stream == NULL;
}
int cuGraphDestroy(void* graph) {
  free(graph);
  return 0;
}
int cuGraphExecDestroy(void* exec) {
  free(exec);
  return 0;
}
