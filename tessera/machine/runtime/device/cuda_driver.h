// The CUDA driver of the machine, found when the program runs. No header of CUDA is needed to build
// this: the few types and functions of the driver API that are used are declared here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/support/result.h"

namespace tessera::runtime::cuda {

using Status = int;  // CUresult; 0 is success
using DeviceId = int;
using Address = std::uint64_t;  // CUdeviceptr
using Context = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using Graph = struct CUgraph_st*;
using GraphNode = struct CUgraphNode_st*;
using GraphExec = struct CUgraphExec_st*;

// Values of CUdevice_attribute, CUfunction_attribute and CUjit_option.
enum DeviceAttribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxSharedPerBlock = 8,
  kWarpSize = 10,
  kMaxRegistersPerBlock = 12,
  kClockKhz = 13,
  kMultiprocessors = 16,
  kMemoryClockKhz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kMaxSharedPerMultiprocessor = 81,
  kMaxRegistersPerMultiprocessor = 82,
  kMaxSharedPerBlockOptin = 97,
  kMaxBlocksPerMultiprocessor = 106,
};
enum FunctionAttribute : int { kRegisters = 4, kMaxDynamicShared = 8 };
enum JitOption : int { kErrorLog = 5, kErrorLogBytes = 6 };
// CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
inline constexpr int kProgrammaticSerialisation = 6;
// CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC and CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC
inline constexpr unsigned char kProgrammaticPort = 1, kProgrammaticEdge = 1;
inline constexpr int kCaptureThreadLocal = 1;  // CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
inline constexpr unsigned kNonBlocking = 1;    // CU_STREAM_NON_BLOCKING

// CUlaunchAttribute and CUlaunchConfig.
struct alignas(8) LaunchAttribute {
  int id = 0, pad = 0;
  union {
    char bytes[64] = {};
    int number;
  };
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  Stream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned count = 0;
};

// CUDA_KERNEL_NODE_PARAMS_v2 and CUgraphEdgeData.
struct KernelNode {
  Function function = nullptr;
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  void **arguments = nullptr, **extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};
struct EdgeData {
  unsigned char from_port = 0, to_port = 0, type = 0, reserved[5] = {};
};

// Every function that is used, with the symbol that has this signature.
#define TESSERA_CUDA_FUNCTIONS(V)                                                                \
  V(init, "cuInit", (unsigned flags))                                                            \
  V(error_name, "cuGetErrorName", (Status status, const char** name))                            \
  V(error_text, "cuGetErrorString", (Status status, const char** text))                          \
  V(version, "cuDriverGetVersion", (int* version))                                               \
  V(device_count, "cuDeviceGetCount", (int* count))                                              \
  V(device_get, "cuDeviceGet", (DeviceId * device, int ordinal))                                 \
  V(device_name, "cuDeviceGetName", (char* name, int bytes, DeviceId device))                    \
  V(device_attribute, "cuDeviceGetAttribute", (int* value, int attribute, DeviceId device))      \
  V(context_retain, "cuDevicePrimaryCtxRetain", (Context * context, DeviceId device))            \
  V(context_release, "cuDevicePrimaryCtxRelease_v2", (DeviceId device))                          \
  V(context_set, "cuCtxSetCurrent", (Context context))                                           \
  V(memory_allocate, "cuMemAlloc_v2", (Address * address, std::size_t bytes))                    \
  V(memory_free, "cuMemFree_v2", (Address address))                                              \
  V(memory_fill, "cuMemsetD8Async",                                                              \
    (Address to, unsigned char value, std::size_t bytes, Stream stream))                         \
  V(copy_to_device, "cuMemcpyHtoDAsync_v2",                                                      \
    (Address to, const void* from, std::size_t bytes, Stream stream))                            \
  V(copy_to_host, "cuMemcpyDtoHAsync_v2",                                                        \
    (void* to, Address from, std::size_t bytes, Stream stream))                                  \
  V(module_load, "cuModuleLoadDataEx",                                                           \
    (Module * module, const void* image, unsigned count, int* options, void** values))           \
  V(module_unload, "cuModuleUnload", (Module module))                                            \
  V(module_function, "cuModuleGetFunction",                                                      \
    (Function * function, Module module, const char* name))                                      \
  V(function_get, "cuFuncGetAttribute", (int* value, int attribute, Function function))          \
  V(function_set, "cuFuncSetAttribute", (Function function, int attribute, int value))           \
  V(launch, "cuLaunchKernel",                                                                    \
    (Function function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,     \
     unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream stream, void** arguments, \
     void** extra))                                                                              \
  V(stream_create, "cuStreamCreate", (Stream * stream, unsigned flags))                          \
  V(stream_destroy, "cuStreamDestroy_v2", (Stream stream))                                       \
  V(stream_wait, "cuStreamSynchronize", (Stream stream))                                         \
  V(capture_begin, "cuStreamBeginCapture_v2", (Stream stream, int mode))                         \
  V(capture_end, "cuStreamEndCapture", (Stream stream, Graph * graph))                           \
  V(graph_instantiate, "cuGraphInstantiateWithFlags",                                            \
    (GraphExec * exec, Graph graph, unsigned long long flags))                                   \
  V(graph_upload, "cuGraphUpload", (GraphExec exec, Stream stream))                              \
  V(graph_launch, "cuGraphLaunch", (GraphExec exec, Stream stream))                              \
  V(graph_destroy, "cuGraphDestroy", (Graph graph))                                              \
  V(graph_exec_destroy, "cuGraphExecDestroy", (GraphExec exec))                                  \
  V(event_create, "cuEventCreate", (Event * event, unsigned flags))                              \
  V(event_record, "cuEventRecord", (Event event, Stream stream))                                 \
  V(event_wait, "cuEventSynchronize", (Event event))                                             \
  V(event_milliseconds, "cuEventElapsedTime", (float* ms, Event start, Event end))               \
  V(event_destroy, "cuEventDestroy_v2", (Event event))

struct Driver {
#define TESSERA_V(name, symbol, arguments) Status(*name) arguments = nullptr;
  TESSERA_CUDA_FUNCTIONS(TESSERA_V)
#undef TESSERA_V
  // cuLaunchKernelEx; null where the driver is older (11.8).
  Status (*launch_with)(const LaunchConfig* config, Function function, void** arguments,
                        void** extra) = nullptr;
  // cuGraphCreate, cuGraphAddKernelNode_v2 and cuGraphAddDependencies_v2; the last one is null
  // where the driver is older (12.3).
  Status (*graph_create)(Graph* graph, unsigned flags) = nullptr;
  Status (*graph_add_kernel)(GraphNode* node, Graph graph, const GraphNode* after,
                             std::size_t count, const KernelNode* kernel) = nullptr;
  Status (*graph_add_edges)(Graph graph, const GraphNode* from, const GraphNode* to,
                            const EdgeData* data, std::size_t count) = nullptr;

  // What a status means, as an error that begins with `what`.
  Error failure(ErrorCode code, const char* what, Status status) const;
  Result<void> check(const char* what, Status status) const;  // kRunFailed
};

// Of the assembly language, times ten, that came with a version of CUDA: 8.4 with 12.4.
constexpr int ptx_version(int cuda) { return 10 * (cuda / 1000 - 4) + cuda % 1000 / 10; }

// Loaded and initialised once. kUnavailable: there is no driver, it is too old, or it finds no
// device, with its reason.
Result<const Driver*> driver();

}  // namespace tessera::runtime::cuda
