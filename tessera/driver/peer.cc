#include "tessera/driver/peer.h"

#include <array>
#include <filesystem>

#include <dlfcn.h>

#include "peers/peer.h"

namespace tessera::driver {
namespace {

namespace fs = std::filesystem;

struct Module {
  decltype(&tessera_peer_abi) abi = nullptr;
  decltype(&tessera_peer_version) version = nullptr;
  decltype(&tessera_peer_create) create = nullptr;
  decltype(&tessera_peer_set_input) set_input = nullptr;
  decltype(&tessera_peer_run) run = nullptr;
  decltype(&tessera_peer_get_output) get_output = nullptr;
  decltype(&tessera_peer_destroy) destroy = nullptr;
};

template <class F>
bool bind(void* handle, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(handle, name));
  return *function != nullptr;
}

std::vector<fs::path> module_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return {program.parent_path().parent_path() / "lib" / "peers",
          program.parent_path().parent_path() / "lib" / "tessera" / "peers"};
}

// Modules stay loaded: several of these libraries start threads that must not lose their code.
Result<Module> load(const std::string& name) {
  for (const fs::path& folder : module_folders()) {
    const fs::path file = folder / ("libtessera_peer_" + name + ".so");
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return make_error(ErrorCode::kUnavailable, "{}", dlerror());
    Module m;
    const bool whole = bind(handle, "tessera_peer_abi", &m.abi) &&
                       bind(handle, "tessera_peer_version", &m.version) &&
                       bind(handle, "tessera_peer_create", &m.create) &&
                       bind(handle, "tessera_peer_set_input", &m.set_input) &&
                       bind(handle, "tessera_peer_run", &m.run) &&
                       bind(handle, "tessera_peer_get_output", &m.get_output) &&
                       bind(handle, "tessera_peer_destroy", &m.destroy);
    if (!whole || m.abi() != TESSERA_PEER_ABI) {
      return make_error(ErrorCode::kUnavailable, "{} is of another version", file.string());
    }
    return m;
  }
  return make_error(ErrorCode::kUnavailable, "not installed");
}

class ModuleOp final : public PeerOp {
 public:
  ModuleOp(const Module& module, TesseraPeerOp* op) : module_(module), op_(op) {}
  ~ModuleOp() override { module_.destroy(op_); }

  std::string version() const override { return module_.version(); }

  Result<void> set_input(int index, const HostTensor& tensor) override {
    if (tensor.dtype() != DType::kF32 ||
        module_.set_input(op_, index, tensor.as<float>(), tensor.size()) != 0) {
      return make_error(ErrorCode::kRunFailed, "input {} refused", index);
    }
    return {};
  }

  bool run() override { return module_.run(op_) == 0; }

  Result<HostTensor> output(const Shape& shape) override {
    HostTensor out(DType::kF32, shape);
    if (module_.get_output(op_, out.as<float>(), out.size()) != 0) {
      return make_error(ErrorCode::kRunFailed, "no output of {} elements", out.size());
    }
    return out;
  }

 private:
  Module module_;
  TesseraPeerOp* op_;
};

}  // namespace

const std::vector<std::string>& peer_names() {
  static const std::vector<std::string> names = {"acl", "blis",  "onednn", "openblas",
                                                 "ort", "torch", "xnnpack"};
  return names;
}

Result<std::unique_ptr<PeerOp>> open_peer(const std::string& name, const std::string& spec,
                                          int threads) {
  TESSERA_TRY(const Module module, load(name));
  std::array<char, 256> reason{};
  TesseraPeerOp* op = module.create(spec.c_str(), threads, reason.data(), reason.size());
  if (!op) return make_error(ErrorCode::kUnsupported, "{}", reason.data());
  return std::unique_ptr<PeerOp>(std::make_unique<ModuleOp>(module, op));
}

}  // namespace tessera::driver
