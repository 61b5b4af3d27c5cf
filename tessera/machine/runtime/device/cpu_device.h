// This process as a device: object code on a thread pool.
#pragma once

#include <unordered_map>

#include "tessera/machine/runtime/abi.h"
#include "tessera/machine/runtime/aligned_buffer.h"
#include "tessera/machine/runtime/device/device.h"
#include "tessera/machine/runtime/thread_pool.h"

namespace tessera::runtime {

class LoadedObject;

// One kernel of object code in this process. Safe to call from several threads with different
// workspaces.
class CpuKernel final : public LoadedCode {
 public:
  explicit CpuKernel(std::unique_ptr<LoadedObject> object);
  ~CpuKernel() override;
  tsr_kernel entry = nullptr;
  KernelInfo info;

 private:
  std::unique_ptr<LoadedObject> object_;
};

// kUnsupported when the target cannot run here; kBuildFailed when the object is damaged or needs
// what the process does not have.
Result<std::unique_ptr<CpuKernel>> load_kernel(const Binary& binary, std::size_t kernel = 0);

class CpuDevice final : public Device {
 public:
  // With a pool of its own. New memory is zero and near the cores of the pool.
  explicit CpuDevice(const PoolOptions& pool);
  // `pool` must outlive the device.
  explicit CpuDevice(ThreadPool& pool);

  const target::Target& target() const override { return target_; }
  DeviceFeatures features() const override { return {.in_process = true}; }
  Result<void*> allocate(std::size_t bytes) override;
  void free(void* memory) override;
  Result<void*> part(void* memory, std::size_t offset, std::size_t bytes) override;
  Result<void> fill(void* memory, std::uint8_t value, std::size_t bytes) override;
  Result<void> upload(void* to, const void* from, std::size_t bytes) override;
  Result<void> download(void* to, void* from, std::size_t bytes) override;
  Result<std::unique_ptr<LoadedCode>> load(const Binary& binary) override;
  Result<void> launch(LoadedCode& code, std::span<void* const> memory) override;
  Result<void> synchronise() override { return {}; }
  void begin_session() override { pool_.begin_session(); }
  void end_session() override { pool_.end_session(); }
  using Device::record;
  Result<std::unique_ptr<Recording>> record(std::vector<Call> calls,
                                            const RecordingPlan& plan) override;
  Result<void> replay(Recording& recording) override;
  Result<double> time_replays(Recording& recording, int replays) override;

 private:
  void provide_workspace(const CpuKernel& kernel);

  std::unique_ptr<ThreadPool> own_;
  ThreadPool& pool_;
  target::Target target_;
  std::unordered_map<void*, AlignedBuffer> memory_;
  AlignedBuffer workspace_;  // of the largest kernel yet
};

}  // namespace tessera::runtime
