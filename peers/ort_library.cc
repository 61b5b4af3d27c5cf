#include "peers/ort_library.h"

#include <cstdlib>
#include <filesystem>

#include <dlfcn.h>

namespace tessera::peers::ort {
namespace {

std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* path = std::getenv("TESSERA_ORT_LIB")) paths.emplace_back(path);
  Dl_info self;
  if (dladdr(reinterpret_cast<const void*>(&Library::get), &self) != 0) {
    const std::filesystem::path module(self.dli_fname);
    paths.push_back((module.parent_path() / "ort" / "libonnxruntime.so.1").string());
  }
  const std::string configured = TESSERA_ORT_LIBRARY;
  if (!configured.empty()) paths.push_back(configured);
  return paths;
}

}  // namespace

Library::Library() {
  for (const std::string& path : candidates()) {
    void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr && open(handle)) return;
    places_ += (places_.empty() ? "" : ", ") + path;
  }
}

bool Library::open(void* handle) {
  auto* get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
  if (get_base == nullptr) return false;
  api_ = get_base()->get_api(kApiVersion);
  if (api_ == nullptr) return false;
  version_ = get_base()->get_version();
  call(kCreateEnv, kLogWarning, "tessera", &env_);
  return true;
}

Handle<SessionOptions> make_session_options(int threads) {
  const Library& library = Library::get();
  SessionOptions* options = nullptr;
  library.call(kCreateSessionOptions, &options);
  Handle<SessionOptions> owner(options);
  library.call(kSetIntraOpNumThreads, options, threads);
  library.call(kSetInterOpNumThreads, options, 1);
  library.call(kSetSessionGraphOptimizationLevel, options, kEnableAll);
  library.call(kAddSessionConfigEntry, options, "session.intra_op.allow_spinning", "1");
  return owner;
}

Handle<MemoryInfo> make_memory_info() {
  MemoryInfo* memory = nullptr;
  Library::get().call(kCreateCpuMemoryInfo, kArenaAllocator, kMemoryDefault, &memory);
  return Handle<MemoryInfo>(memory);
}

}  // namespace tessera::peers::ort
