// ONNX Runtime opened at run time, and owners of its objects: shared by operations and whole
// models.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "peers/ort_api.h"

namespace tessera::peers::ort {

// The opened library. Never closed: its threads may outlive any object of ours.
class Library {
 public:
  static const Library& get() {
    static const Library library;
    return library;
  }

  bool is_open() const { return api_ != nullptr; }
  const std::string& version() const { return version_; }
  const std::string& places() const { return places_; }
  Env* env() const { return env_; }

  // Calls the table's function at `slot`; throws what it reports.
  template <typename... Arguments>
  void call(Slot slot, Arguments... arguments) const {
    auto* function = reinterpret_cast<Status* (*)(Arguments...)>(api_[slot]);
    Status* status = function(arguments...);
    if (status == nullptr) return;
    auto* message = reinterpret_cast<const char* (*)(const Status*)>(api_[kGetErrorMessage]);
    const std::string text = message(status);
    release(kReleaseStatus, status);
    throw std::runtime_error("ONNX Runtime: " + text);
  }

  template <typename Object>
  void release(Slot slot, Object* object) const {
    if (object != nullptr) reinterpret_cast<void (*)(Object*)>(api_[slot])(object);
  }

 private:
  Library();
  bool open(void* handle);

  void* const* api_ = nullptr;
  std::string version_;
  std::string places_;
  Env* env_ = nullptr;
};

struct Deleter {
  void operator()(Session* p) const { Library::get().release(kReleaseSession, p); }
  void operator()(SessionOptions* p) const { Library::get().release(kReleaseSessionOptions, p); }
  void operator()(MemoryInfo* p) const { Library::get().release(kReleaseMemoryInfo, p); }
  void operator()(Value* p) const { Library::get().release(kReleaseValue, p); }
};
template <typename T>
using Handle = std::unique_ptr<T, Deleter>;

// Graph optimisation on, `threads` spinning threads inside operators.
Handle<SessionOptions> make_session_options(int threads);
Handle<MemoryInfo> make_memory_info();

}  // namespace tessera::peers::ort
