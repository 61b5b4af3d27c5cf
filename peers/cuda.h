// What the peers on CUDA devices share: the driver, libraries opened at run time, memory, and a
// clock that does not see the way to the device.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "peers/operation.h"
#include "tessera/machine/runtime/device/cuda_driver.h"
#include "tessera/machine/runtime/device/shared_library.h"

namespace tessera::peers {

// A library of NVIDIA's: from the loader's folders, a CUDA toolkit, or the wheels in the Python
// environment of the peers; environment TESSERA_CUDA_LIBRARIES names other folders (a:b). Throws
// Unsupported when it is in none. `names` are tried in order, e.g. {"libcudnn.so.9"}.
runtime::SharedLibrary open_cuda_library(const std::vector<std::string>& names);

// Throws what the error says.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
  return std::move(result).value();
}
inline void must(Result<void> result) {
  if (!result.ok()) throw std::runtime_error(result.error().message);
}

// The first device with one stream; work runs in the order in which it was given.
class CudaStream {
 public:
  CudaStream();
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  runtime::cuda::Stream get() const { return stream_; }
  void* allocate(std::size_t bytes);  // freed with the stream
  void upload(void* to, const void* from, std::size_t bytes);
  void download(void* to, const void* from, std::size_t bytes);
  void wait();

  // Seconds of `calls` calls of `work`, which puts kernels on the stream: one graph of all of them,
  // by the events of the device.
  double time(const std::function<void()>& work, int calls);

 private:
  const runtime::cuda::Driver& d_;
  runtime::cuda::DeviceId device_ = 0;
  runtime::cuda::Stream stream_ = nullptr;
  runtime::cuda::Event start_ = nullptr, end_ = nullptr;
  std::vector<runtime::cuda::Address> memory_;
};

}  // namespace tessera::peers
