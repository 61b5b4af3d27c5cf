#include "tessera/machine/runtime/device/device.h"

#include <utility>

namespace tessera::runtime {

Result<double> Device::time(LoadedCode& code, std::span<void* const> memory, int calls) {
  const Call call{&code, {memory.begin(), memory.end()}};
  TESSERA_TRY(const std::unique_ptr<Recording> recording,
              record(std::vector<Call>(static_cast<std::size_t>(calls), call)));
  return time_replays(*recording, 1);
}

Result<DeviceBuffer> DeviceBuffer::make(Device& device, std::size_t bytes) {
  DeviceBuffer out;
  TESSERA_TRY(out.memory_, device.allocate(bytes));
  out.device_ = &device;
  out.bytes_ = bytes;
  return out;
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& o) noexcept {
  std::swap(device_, o.device_);
  std::swap(memory_, o.memory_);
  std::swap(bytes_, o.bytes_);
  return *this;
}

DeviceBuffer::~DeviceBuffer() {
  if (device_) device_->free(memory_);
}

}  // namespace tessera::runtime
