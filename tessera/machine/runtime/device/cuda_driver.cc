#include "tessera/machine/runtime/device/cuda_driver.h"

#include "tessera/machine/runtime/device/shared_library.h"

namespace tessera::runtime::cuda {
namespace {

Result<Driver> load() {
  const Result<SharedLibrary> library = SharedLibrary::open("libcuda.so.1");
  if (!library.ok()) {
    return make_error(library.error().code,
                      "no CUDA driver: {}; install NVIDIA's, or name a machine to compile without "
                      "one: --target h200",
                      library.error().message);
  }
  Driver d;
#define TESSERA_V(name, symbol, arguments)                                      \
  if (const Result<void> found = library->find(symbol, &d.name); !found.ok()) { \
    return found.error().with_context("the CUDA driver is too old");            \
  }
  TESSERA_CUDA_FUNCTIONS(TESSERA_V)
#undef TESSERA_V
  if (!library->find("cuLaunchKernelEx", &d.launch_with).ok()) d.launch_with = nullptr;
  if (!library->find("cuGraphCreate", &d.graph_create).ok() ||
      !library->find("cuGraphAddKernelNode_v2", &d.graph_add_kernel).ok() ||
      !library->find("cuGraphAddDependencies_v2", &d.graph_add_edges).ok()) {
    d.graph_add_edges = nullptr;
  }
  if (const Status status = d.init(0))
    return d.failure(ErrorCode::kUnavailable, "no CUDA device: the driver says", status);
  int count = 0;
  if (const Status status = d.device_count(&count))
    return d.failure(ErrorCode::kUnavailable, "no CUDA device: the driver says", status);
  if (count == 0) return make_error(ErrorCode::kUnavailable, "no CUDA device: the driver has none");
  return d;
}

}  // namespace

Error Driver::failure(ErrorCode code, const char* what, Status status) const {
  const char *name = nullptr, *text = nullptr;
  if (error_name(status, &name) != 0 || !name) name = "an unknown error";
  if (error_text(status, &text) != 0 || !text) text = "";
  return make_error(code, "{}: {} ({})", what, text, name);
}

Result<void> Driver::check(const char* what, Status status) const {
  if (status == 0) return {};
  return failure(ErrorCode::kRunFailed, what, status);
}

Result<const Driver*> driver() {
  static const Result<Driver> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace tessera::runtime::cuda
