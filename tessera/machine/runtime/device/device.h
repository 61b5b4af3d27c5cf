// What runs code and owns the memory it works on: this process, or a GPU behind its driver.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tessera/machine/runtime/device/binary.h"
#include "tessera/support/result.h"

namespace tessera::runtime {

// Code that a device has loaded; must not outlive the device.
class LoadedCode {
 public:
  virtual ~LoadedCode() = default;
};

// A program on its memory: its parameters, then its temporaries. Without the temporaries it works
// on some that the code owns.
struct Call {
  LoadedCode* code = nullptr;
  std::vector<void*> memory;
};

// Some bytes of a device's memory.
struct Piece {
  void* memory = nullptr;
  std::size_t bytes = 0;
};

// What a recording may do besides running its calls in a row, by call; empty: nothing.
struct RecordingPlan {
  std::vector<Piece> fetched;  // brought into the second cache while the call runs, if its code can
  // The call need only come after these calls and what they come after. Calls that may then run
  // side by side bring their temporaries.
  std::vector<std::vector<std::size_t>> after;
};

// What only some devices can.
struct DeviceFeatures {
  bool plans = false;  // recordings follow a RecordingPlan; elsewhere they run their calls in a row
  // It is this process: memory is named by its addresses, and a launch returns when it is done.
  bool in_process = false;
};

// Calls in a row that a device has prepared once, to run them often; must not outlive the device,
// the code or the memory.
class Recording {
 public:
  virtual ~Recording() = default;
};

// Memory is named by opaque handles of the device that gave it: addresses of CPUs and CUDA, memory
// objects of OpenCL. Work runs in the order in which it was given, and may still run when a call
// returns; downloads wait for it. One thread at a time may use a device, but several may load code.
// kUnavailable: the device is gone; kRunFailed: there is no memory, or what was started failed, and
// nothing more may work.
class Device {
 public:
  virtual ~Device() = default;
  virtual const target::Target& target() const = 0;
  virtual DeviceFeatures features() const { return {}; }

  // At least 64-byte aligned, of unspecified content. `bytes` may be 0.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  // `bytes` of `memory` from `offset` on, a multiple of kPartAlignment; gone with `memory`.
  static constexpr std::size_t kPartAlignment = 512;
  virtual Result<void*> part(void* memory, std::size_t offset, std::size_t bytes) = 0;
  virtual Result<void> fill(void* memory, std::uint8_t value, std::size_t bytes) = 0;
  virtual Result<void> upload(void* to, const void* from, std::size_t bytes) = 0;
  virtual Result<void> download(void* to, void* from, std::size_t bytes) = 0;

  // kUnsupported: made for another kind or machine; kBuildFailed: with the assembler's words.
  virtual Result<std::unique_ptr<LoadedCode>> load(const Binary& binary) = 0;
  // Starts the program on its memory, as of Call. `code` is this device's.
  virtual Result<void> launch(LoadedCode& code, std::span<void* const> memory) = 0;
  virtual Result<void> synchronise() = 0;
  // Between the two, the device stays awake for the next work; pairs may nest (DeviceSession).
  virtual void begin_session() {}
  virtual void end_session() {}

  virtual Result<std::unique_ptr<Recording>> record(std::vector<Call> calls,
                                                    const RecordingPlan& plan) = 0;
  Result<std::unique_ptr<Recording>> record(std::vector<Call> calls) {
    return record(std::move(calls), {});
  }
  virtual Result<void> replay(Recording& recording) = 0;
  // Seconds that so many replays in a row take, by the device's clock, without the way there.
  virtual Result<double> time_replays(Recording& recording, int replays) = 0;
  // The same of `calls` launches in a row.
  Result<double> time(LoadedCode& code, std::span<void* const> memory, int calls);
};

// Work in several parts, such as a run of a whole model.
class DeviceSession {
 public:
  explicit DeviceSession(Device& device) : device_(device) { device_.begin_session(); }
  ~DeviceSession() { device_.end_session(); }
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

 private:
  Device& device_;
};

// A piece of a device's memory, given back with the object. The device must outlive it.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  static Result<DeviceBuffer> make(Device& device, std::size_t bytes);
  DeviceBuffer(DeviceBuffer&& o) noexcept { *this = std::move(o); }
  DeviceBuffer& operator=(DeviceBuffer&& o) noexcept;
  ~DeviceBuffer();
  void* get() const { return memory_; }
  std::size_t bytes() const { return bytes_; }

 private:
  Device* device_ = nullptr;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace tessera::runtime
