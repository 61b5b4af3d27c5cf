#include <dlfcn.h>

#include "tessera/backend/codegen/back_ends.h"

namespace tessera::codegen {

Result<const LlvmBackEnd*> load_llvm(const std::string& file, const std::string& version) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* why = ::dlerror();
    return make_error(ErrorCode::kUnavailable, "cannot load the compiler: {}", why ? why : file);
  }
  using Open = const LlvmBackEnd* (*)(const char* version);
  const auto open = reinterpret_cast<Open>(::dlsym(library, "tessera_llvm_back_end"));
  const LlvmBackEnd* back_end = open ? open(version.c_str()) : nullptr;
  if (back_end) return back_end;  // stays loaded: its functions are called until the process ends
  ::dlclose(library);
  return make_error(ErrorCode::kUnavailable, "cannot load the compiler: {} is not of Tessera {}",
                    file, version);
}

Result<const LlvmBackEnd*> llvm_back_end() {
  static const Result<const LlvmBackEnd*> loaded = load_llvm("libtessera_llvm.so", TESSERA_VERSION);
  return loaded;
}

}  // namespace tessera::codegen
