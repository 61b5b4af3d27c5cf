#include "tessera/machine/runtime/device/opencl_driver.h"

#include "tessera/machine/runtime/device/shared_library.h"

namespace tessera::runtime::opencl {
namespace {

Result<Driver> load() {
  const Result<SharedLibrary> library = SharedLibrary::open("libOpenCL.so.1");
  if (!library.ok()) return library.error().with_context("no OpenCL");
  Driver d;
#define TESSERA_V(result, name, symbol, arguments) TESSERA_DO(library->find(symbol, &d.name));
  TESSERA_OPENCL_FUNCTIONS(TESSERA_V)
#undef TESSERA_V
  return d;
}

}  // namespace

Result<void> Driver::check(const char* what, Status status) const {
  if (status == 0) return {};
  return make_error(ErrorCode::kRunFailed, "{}: OpenCL error {}", what, status);
}

Result<const Driver*> driver() {
  static const Result<Driver> loaded = load();
  if (!loaded.ok()) return loaded.error();
  return &*loaded;
}

}  // namespace tessera::runtime::opencl
