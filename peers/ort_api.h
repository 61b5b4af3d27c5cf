// The part of ONNX Runtime's C function table that the peer uses. The package that ships the
// library has no header. The table is append-only, so a function is its position; `Slot` lists
// positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::peers::ort {

struct Status;
struct Env;
struct Session;
struct SessionOptions;
struct RunOptions;
struct MemoryInfo;
struct Value;

enum Slot : std::size_t {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kCreateSessionFromArray = 8,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetSessionGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithDataAsOrtValue = 49,
  kCreateCpuMemoryInfo = 69,
  kReleaseStatus = 93,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
  kAddSessionConfigEntry = 130,
};

// The oldest version whose table reaches kAddSessionConfigEntry.
constexpr std::uint32_t kApiVersion = 5;

// Values of the library's enums.
constexpr int kLogWarning = 2;
constexpr int kEnableAll = 99;      // GraphOptimizationLevel
constexpr int kArenaAllocator = 1;  // OrtAllocatorType
constexpr int kMemoryDefault = 0;   // OrtMemType
constexpr int kElementFloat = 1;    // ONNXTensorElementDataType

struct ApiBase {
  void* const* (*get_api)(std::uint32_t version);
  const char* (*get_version)();
};

}  // namespace tessera::peers::ort
