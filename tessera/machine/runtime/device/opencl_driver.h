// OpenCL 1.2 of the machine, found when the program runs; what is used of it is declared here.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tessera/support/result.h"

namespace tessera::runtime::opencl {

using Status = std::int32_t;  // 0 is success
using Flags = std::uint64_t;
using Platform = struct _cl_platform_id*;
using DeviceId = struct _cl_device_id*;
using Context = struct _cl_context*;
using Queue = struct _cl_command_queue*;
using Memory = struct _cl_mem*;
using Program = struct _cl_program*;
using Kernel = struct _cl_kernel*;
using Event = struct _cl_event*;

inline constexpr Flags kGpuDevice = 1 << 2, kAnyDevice = 0xffffffff;
inline constexpr Flags kReadWrite = 1, kProfiling = 1 << 1, kRoundsDivisions = 1 << 7;
inline constexpr std::uint32_t kRegion = 0x1220;  // of create_part: two sizes, origin and bytes
enum Info : std::uint32_t {
  kComputeUnits = 0x1002,
  kMaxGroupSize = 0x1004,
  kClockMhz = 0x100c,
  kSingleConfig = 0x101b,
  kLineBytes = 0x101d,
  kCacheBytes = 0x101e,
  kMemoryBytes = 0x101f,
  kLocalBytes = 0x1023,
  kDeviceName = 0x102b,
  kDeviceVersion = 0x102f,
  kBuildLog = 0x1183,
  kCommandStart = 0x1282,
  kCommandEnd = 0x1283,
};

// Every function that is used, with its result and symbol.
#define TESSERA_OPENCL_FUNCTIONS(V)                                                               \
  V(Status, platforms, "clGetPlatformIDs",                                                        \
    (std::uint32_t n, Platform * out, std::uint32_t * count))                                     \
  V(Status, devices, "clGetDeviceIDs",                                                            \
    (Platform platform, Flags type, std::uint32_t n, DeviceId * out, std::uint32_t * count))      \
  V(Status, device_info, "clGetDeviceInfo",                                                       \
    (DeviceId device, std::uint32_t info, std::size_t bytes, void* value, std::size_t* size))     \
  V(Context, create_context, "clCreateContext",                                                   \
    (const std::intptr_t* properties, std::uint32_t n, const DeviceId* devices,                   \
     void (*notify)(const char*, const void*, std::size_t, void*), void* user, Status* status))   \
  V(Status, release_context, "clReleaseContext", (Context context))                               \
  V(Queue, create_queue, "clCreateCommandQueue",                                                  \
    (Context context, DeviceId device, Flags properties, Status * status))                        \
  V(Status, release_queue, "clReleaseCommandQueue", (Queue queue))                                \
  V(Status, finish, "clFinish", (Queue queue))                                                    \
  V(Memory, create_buffer, "clCreateBuffer",                                                      \
    (Context context, Flags flags, std::size_t bytes, void* host, Status* status))                \
  V(Memory, create_part, "clCreateSubBuffer",                                                     \
    (Memory memory, Flags flags, std::uint32_t type, const void* region, Status* status))         \
  V(Status, fill, "clEnqueueFillBuffer",                                                          \
    (Queue queue, Memory memory, const void* pattern, std::size_t size, std::size_t offset,       \
     std::size_t bytes, std::uint32_t waits, const Event* wait, Event* event))                    \
  V(Status, release_buffer, "clReleaseMemObject", (Memory memory))                                \
  V(Status, write, "clEnqueueWriteBuffer",                                                        \
    (Queue queue, Memory memory, std::uint32_t blocking, std::size_t offset, std::size_t bytes,   \
     const void* from, std::uint32_t waits, const Event* wait, Event* event))                     \
  V(Status, read, "clEnqueueReadBuffer",                                                          \
    (Queue queue, Memory memory, std::uint32_t blocking, std::size_t offset, std::size_t bytes,   \
     void* to, std::uint32_t waits, const Event* wait, Event* event))                             \
  V(Program, create_program, "clCreateProgramWithSource",                                         \
    (Context context, std::uint32_t n, const char** texts, const std::size_t* sizes,              \
     Status* status))                                                                             \
  V(Status, release_program, "clReleaseProgram", (Program program))                               \
  V(Status, build_program, "clBuildProgram",                                                      \
    (Program program, std::uint32_t n, const DeviceId* devices, const char* options,              \
     void (*notify)(Program, void*), void* user))                                                 \
  V(Status, build_info, "clGetProgramBuildInfo",                                                  \
    (Program program, DeviceId device, std::uint32_t info, std::size_t bytes, void* value,        \
     std::size_t* size))                                                                          \
  V(Kernel, create_kernel, "clCreateKernel", (Program program, const char* name, Status* status)) \
  V(Status, release_kernel, "clReleaseKernel", (Kernel kernel))                                   \
  V(Status, set_argument, "clSetKernelArg",                                                       \
    (Kernel kernel, std::uint32_t index, std::size_t bytes, const void* value))                   \
  V(Status, launch, "clEnqueueNDRangeKernel",                                                     \
    (Queue queue, Kernel kernel, std::uint32_t dims, const std::size_t* offset,                   \
     const std::size_t* items, const std::size_t* group, std::uint32_t waits, const Event* wait,  \
     Event* event))                                                                               \
  V(Status, event_time, "clGetEventProfilingInfo",                                                \
    (Event event, std::uint32_t info, std::size_t bytes, void* value, std::size_t* size))         \
  V(Status, release_event, "clReleaseEvent", (Event event))

struct Driver {
#define TESSERA_V(result, name, symbol, arguments) result(*name) arguments = nullptr;
  TESSERA_OPENCL_FUNCTIONS(TESSERA_V)
#undef TESSERA_V

  Result<void> check(const char* what, Status status) const;  // kRunFailed
};

// Loaded once. kUnavailable where there is no OpenCL, with the loader's reason.
Result<const Driver*> driver();

}  // namespace tessera::runtime::opencl
