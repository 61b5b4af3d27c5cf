#include "tessera/machine/runtime/device/shared_library.h"

#include <dlfcn.h>

namespace tessera::runtime {

Result<SharedLibrary> SharedLibrary::open(const std::string& name) {
  SharedLibrary out;
  out.name_ = name;
  out.handle_ = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!out.handle_) {
    const char* reason = dlerror();
    return make_error(ErrorCode::kUnavailable, "{}", reason ? reason : name);
  }
  return out;
}

Result<void*> SharedLibrary::address_of(const char* symbol) const {
  void* address = dlsym(handle_, symbol);
  if (!address) return make_error(ErrorCode::kUnavailable, "{} has no {}", name_, symbol);
  return address;
}

}  // namespace tessera::runtime
