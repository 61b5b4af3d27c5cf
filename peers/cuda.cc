#include "peers/cuda.h"

#include <filesystem>
#include <sstream>

#include <dlfcn.h>

namespace tessera::peers {
namespace {

namespace fs = std::filesystem;
using runtime::cuda::Address;
using runtime::cuda::Status;

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

std::vector<fs::path> folders_below(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    out.push_back(entry.path());
  return out;
}

// The folder of this module; the Python environment of the peers lies beside it.
fs::path module_folder() {
  Dl_info info;
  return dladdr(reinterpret_cast<void*>(&module_folder), &info) != 0
             ? fs::path(info.dli_fname).parent_path()
             : fs::path();
}

std::vector<fs::path> library_folders() {
  std::vector<fs::path> out;
  if (const char* given = std::getenv("TESSERA_CUDA_LIBRARIES")) {
    std::istringstream text(given);
    for (std::string folder; std::getline(text, folder, ':');) out.emplace_back(folder);
  }
  out.emplace_back("");  // the loader's own
  out.emplace_back("/usr/local/cuda/lib64");
  for (const fs::path& python : folders_below(module_folder() / "venv" / "lib")) {
    for (const fs::path& wheel : folders_below(python / "site-packages" / "nvidia"))
      out.push_back(wheel / "lib");
  }
  return out;
}

}  // namespace

runtime::SharedLibrary open_cuda_library(const std::vector<std::string>& names) {
  std::string reason;
  for (const fs::path& folder : library_folders()) {
    for (const std::string& name : names) {
      Result<runtime::SharedLibrary> found = runtime::SharedLibrary::open(folder / name);
      if (found.ok()) return std::move(found).value();
      if (reason.empty()) reason = found.error().message;
    }
  }
  throw Unsupported(reason);
}

CudaStream::CudaStream() : d_(*must(runtime::cuda::driver())) {
  must(d_.check("cuDeviceGet", d_.device_get(&device_, 0)));
  runtime::cuda::Context context = nullptr;
  must(d_.check("cuDevicePrimaryCtxRetain", d_.context_retain(&context, device_)));
  must(d_.check("cuCtxSetCurrent", d_.context_set(context)));
  must(d_.check("cuStreamCreate", d_.stream_create(&stream_, runtime::cuda::kNonBlocking)));
  must(d_.check("cuEventCreate", d_.event_create(&start_, 0)));
  must(d_.check("cuEventCreate", d_.event_create(&end_, 0)));
}

CudaStream::~CudaStream() {
  for (const Address a : memory_) d_.memory_free(a);
  if (start_) d_.event_destroy(start_);
  if (end_) d_.event_destroy(end_);
  if (stream_) d_.stream_destroy(stream_);
  d_.context_release(device_);
}

void* CudaStream::allocate(std::size_t bytes) {
  Address address = 0;
  must(d_.check("cuMemAlloc", d_.memory_allocate(&address, std::max<std::size_t>(bytes, 1))));
  memory_.push_back(address);
  return reinterpret_cast<void*>(address);
}

void CudaStream::upload(void* to, const void* from, std::size_t bytes) {
  must(d_.check("cuMemcpyHtoD", d_.copy_to_device(address_of(to), from, bytes, stream_)));
  wait();
}

void CudaStream::download(void* to, const void* from, std::size_t bytes) {
  must(d_.check("cuMemcpyDtoH", d_.copy_to_host(to, address_of(from), bytes, stream_)));
  wait();
}

void CudaStream::wait() { must(d_.check("the kernels", d_.stream_wait(stream_))); }

double CudaStream::time(const std::function<void()>& work, int calls) {
  must(d_.check("cuStreamBeginCapture",
                d_.capture_begin(stream_, runtime::cuda::kCaptureThreadLocal)));
  std::exception_ptr failed;
  try {
    for (int i = 0; i < calls; ++i) work();
  } catch (...) {
    failed = std::current_exception();
  }
  runtime::cuda::Graph graph = nullptr;
  const Status captured = d_.capture_end(stream_, &graph);
  if (failed) std::rethrow_exception(failed);
  must(d_.check("cuStreamEndCapture", captured));
  runtime::cuda::GraphExec exec = nullptr;
  const Status made = d_.graph_instantiate(&exec, graph, 0);
  d_.graph_destroy(graph);
  must(d_.check("cuGraphInstantiate", made));
  float ms = 0;
  const Status steps[] = {d_.graph_upload(exec, stream_),
                          d_.event_record(start_, stream_),
                          d_.graph_launch(exec, stream_),
                          d_.event_record(end_, stream_),
                          d_.event_wait(end_),
                          d_.event_milliseconds(&ms, start_, end_)};
  d_.graph_exec_destroy(exec);
  for (const Status status : steps) must(d_.check("the graph", status));
  return 1e-3 * static_cast<double>(ms);
}

}  // namespace tessera::peers
