#include "tessera/machine/runtime/device/cpu_device.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "tessera/machine/runtime/first_touch.h"
#include "tessera/machine/runtime/object_loader.h"
#include "tessera/support/clock.h"

namespace tessera::runtime {
namespace {

class CpuRecording final : public Recording {
 public:
  explicit CpuRecording(std::vector<Call> c) : calls(std::move(c)) {}
  std::vector<Call> calls;
};

Result<void> failed(const CpuKernel& kernel, std::int32_t status) {
  return make_error(ErrorCode::kRunFailed, "kernel {} returned {}", kernel.info.name, status);
}

}  // namespace

CpuKernel::CpuKernel(std::unique_ptr<LoadedObject> object) : object_(std::move(object)) {}
CpuKernel::~CpuKernel() = default;

Result<std::unique_ptr<CpuKernel>> load_kernel(const Binary& binary, std::size_t kernel) {
  if (binary.kind != BinaryKind::kObject || !target::runs_on_host(binary.target)) {
    return make_error(ErrorCode::kUnsupported, "code for target {} does not run on this machine",
                      binary.target.name);
  }
  if (kernel >= binary.kernels.size())
    return make_error(ErrorCode::kInvalidArgument, "object code has no kernel {}", kernel);
  const KernelInfo& info = binary.kernels[kernel];
  TESSERA_TRY(
      std::unique_ptr<LoadedObject> object,
      load_object({reinterpret_cast<const char*>(binary.bytes.data()), binary.bytes.size()}));
  void* entry = object->symbol(info.name);
  if (!entry) return make_error(ErrorCode::kBuildFailed, "{} is not in its object code", info.name);
  auto out = std::make_unique<CpuKernel>(std::move(object));
  out->entry = reinterpret_cast<tsr_kernel>(entry);
  out->info = info;
  return out;
}

CpuDevice::CpuDevice(const PoolOptions& pool)
    : own_(std::make_unique<ThreadPool>(pool)),
      pool_(*own_),
      target_(target::code_target(target::host(), pool_.threads())) {}

CpuDevice::CpuDevice(ThreadPool& pool)
    : pool_(pool), target_(target::code_target(target::host(), pool.threads())) {}

Result<void*> CpuDevice::allocate(std::size_t bytes) {
  try {
    AlignedBuffer buffer(std::max(bytes, AlignedBuffer::kAlignment));
    first_touch(buffer, pool_);
    void* memory = buffer.data();
    memory_.emplace(memory, std::move(buffer));
    return memory;
  } catch (const std::bad_alloc&) {
    return make_error(ErrorCode::kRunFailed, "no memory for {} bytes", bytes);
  }
}

void CpuDevice::free(void* memory) { memory_.erase(memory); }

Result<void*> CpuDevice::part(void* memory, std::size_t offset, std::size_t) {
  return static_cast<std::byte*>(memory) + offset;
}

Result<void> CpuDevice::fill(void* memory, std::uint8_t value, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, value, bytes);
  return {};
}

Result<void> CpuDevice::upload(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return {};
}

Result<void> CpuDevice::download(void* to, void* from, std::size_t bytes) {
  return upload(to, from, bytes);
}

Result<std::unique_ptr<LoadedCode>> CpuDevice::load(const Binary& binary) {
  TESSERA_TRY(std::unique_ptr<CpuKernel> kernel, load_kernel(binary));
  return std::unique_ptr<LoadedCode>(std::move(kernel));
}

void CpuDevice::provide_workspace(const CpuKernel& kernel) {
  const auto bytes = static_cast<std::size_t>(kernel.info.shared_bytes +
                                              kernel.info.worker_bytes * pool_.host()->num_workers);
  if (bytes <= workspace_.bytes() && workspace_.bytes() > 0) return;
  workspace_ = AlignedBuffer(std::max<std::size_t>(bytes, AlignedBuffer::kAlignment));
  first_touch(workspace_, pool_);
}

Result<void> CpuDevice::launch(LoadedCode& code, std::span<void* const> memory) {
  const auto& kernel = static_cast<const CpuKernel&>(code);
  provide_workspace(kernel);
  const std::int32_t status = kernel.entry(memory.data(), workspace_.data(), pool_.host());
  return status == 0 ? Result<void>() : failed(kernel, status);
}

Result<std::unique_ptr<Recording>> CpuDevice::record(std::vector<Call> calls,
                                                     const RecordingPlan& /*plan*/) {
  for (const Call& call : calls) provide_workspace(static_cast<const CpuKernel&>(*call.code));
  return std::unique_ptr<Recording>(std::make_unique<CpuRecording>(std::move(calls)));
}

Result<void> CpuDevice::replay(Recording& recording) {
  const ThreadPool::Session session(pool_);
  for (const Call& call : static_cast<CpuRecording&>(recording).calls) {
    const auto& kernel = static_cast<const CpuKernel&>(*call.code);
    const std::int32_t status = kernel.entry(call.memory.data(), workspace_.data(), pool_.host());
    if (status != 0) return failed(kernel, status);
  }
  return {};
}

Result<double> CpuDevice::time_replays(Recording& recording, int replays) {
  const auto start = Clock::now();
  for (int i = 0; i < replays; ++i) TESSERA_DO(replay(recording));
  return seconds_since(start);
}

}  // namespace tessera::runtime
