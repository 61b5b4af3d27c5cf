#include "tessera/app/bench/peer.h"

#include <array>
#include <filesystem>
#include <utility>

#include <dlfcn.h>

#include "peers/peer.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

struct Module {
  decltype(&tessera_peer_abi) abi = nullptr;
  decltype(&tessera_peer_version) version = nullptr;
  decltype(&tessera_peer_create) create = nullptr;
  decltype(&tessera_peer_set_input) set_input = nullptr;
  decltype(&tessera_peer_run) run = nullptr;
  decltype(&tessera_peer_time) time = nullptr;
  decltype(&tessera_peer_get_output) get_output = nullptr;
  decltype(&tessera_peer_destroy) destroy = nullptr;
  void* handle = nullptr;
};

// Null where the module runs no models.
struct ModelFunctions {
  decltype(&tessera_peer_open_model) open = nullptr;
  decltype(&tessera_peer_model_bind_input) bind_input = nullptr;
  decltype(&tessera_peer_model_bind_output) bind_output = nullptr;
  decltype(&tessera_peer_model_run) run = nullptr;
  decltype(&tessera_peer_model_error) error = nullptr;
  decltype(&tessera_peer_close_model) close = nullptr;
};

template <class F>
bool bind(void* handle, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(handle, name));
  return *function != nullptr;
}

std::string file_name(const std::string& name) { return "libtessera_peer_" + name + ".so"; }

// Modules stay loaded: several of these libraries start threads that must not lose their code.
Result<Module> load(const std::string& name) {
  for (const fs::path& folder : peer_module_folders()) {
    const fs::path file = folder / file_name(name);
    std::error_code error;
    if (!fs::exists(file, error)) continue;
    void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return make_error(ErrorCode::kUnavailable, "{}", dlerror());
    Module m;
    m.handle = handle;
    const bool whole = bind(handle, "tessera_peer_abi", &m.abi) &&
                       bind(handle, "tessera_peer_version", &m.version) &&
                       bind(handle, "tessera_peer_create", &m.create) &&
                       bind(handle, "tessera_peer_set_input", &m.set_input) &&
                       bind(handle, "tessera_peer_run", &m.run) &&
                       bind(handle, "tessera_peer_time", &m.time) &&
                       bind(handle, "tessera_peer_get_output", &m.get_output) &&
                       bind(handle, "tessera_peer_destroy", &m.destroy);
    if (!whole || m.abi() != TESSERA_PEER_ABI) {
      return make_error(ErrorCode::kUnavailable, "{} is of another version", file.string());
    }
    return m;
  }
  const std::vector<fs::path> folders = peer_module_folders();
  return make_error(ErrorCode::kUnavailable, "not installed: no {} in {} or {}", file_name(name),
                    folders.front().string(), folders.back().string());
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

  Result<double> time(int calls) override {
    double seconds = -1;
    if (module_.time(op_, calls, &seconds) == 0) return seconds;
    return make_error(ErrorCode::kRunFailed, "the call failed");
  }

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

// TensorProto.DataType, the numbering that crosses the border to peers.
int onnx_type(DType t) {
  switch (t) {
    case DType::kF32:
      return 1;
    case DType::kU8:
      return 2;
    case DType::kI8:
      return 3;
    case DType::kU16:
      return 4;
    case DType::kI16:
      return 5;
    case DType::kI32:
      return 6;
    case DType::kI64:
      return 7;
    case DType::kBool:
      return 9;
    case DType::kF16:
      return 10;
    case DType::kF64:
      return 11;
    case DType::kU32:
      return 12;
    case DType::kU64:
      return 13;
    case DType::kBF16:
      return 16;
    case DType::kF8E4M3:
      return 17;
    case DType::kF8E5M2:
      return 19;
  }
  return 0;
}

class ModuleModel final : public PeerModel {
 public:
  ModuleModel(std::string version, const ModelFunctions& functions, TesseraPeerModel* model)
      : version_(std::move(version)), functions_(functions), model_(model) {}
  ~ModuleModel() override { functions_.close(model_); }

  std::string version() const override { return version_; }

  Result<void> bind(const std::vector<std::string>& input_names,
                    const std::vector<HostTensor>& inputs,
                    const std::vector<std::string>& output_names,
                    const std::vector<HostTensor>& outputs) override {
    tensors_.clear();
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      TESSERA_DO(bind_one(functions_.bind_input, input_names[i], inputs[i]));
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      TESSERA_DO(bind_one(functions_.bind_output, output_names[i], outputs[i]));
    }
    return {};
  }

  Result<void> run() override {
    if (functions_.run(model_) == 0) return {};
    return make_error(ErrorCode::kRunFailed, "{}", functions_.error(model_));
  }

 private:
  Result<void> bind_one(decltype(&tessera_peer_model_bind_input) function, const std::string& name,
                        const HostTensor& tensor) {
    tensors_.push_back(tensor);
    const TesseraPeerTensor t{.name = name.c_str(),
                              .onnx_type = onnx_type(tensor.dtype()),
                              .dims = tensor.shape().data(),
                              .rank = tensor.shape().size(),
                              .data = tensors_.back().data(),
                              .bytes = tensor.bytes()};
    if (function(model_, &t) == 0) return {};
    return make_error(ErrorCode::kRunFailed, "{}: {}", name, functions_.error(model_));
  }

  std::string version_;
  ModelFunctions functions_;
  TesseraPeerModel* model_;
  std::vector<HostTensor> tensors_;  // copies share memory
};

constexpr std::pair<const char*, target::Kind> kPeers[] = {
    {"acl", target::Kind::kCpu},     {"blis", target::Kind::kCpu},
    {"cublas", target::Kind::kCuda}, {"cudnn", target::Kind::kCuda},
    {"onednn", target::Kind::kCpu},  {"openblas", target::Kind::kCpu},
    {"ort", target::Kind::kCpu},     {"torch", target::Kind::kCpu},
    {"xnnpack", target::Kind::kCpu},
};

}  // namespace

const std::vector<std::string>& peer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> out;
    for (const auto& [name, kind] : kPeers) out.emplace_back(name);
    return out;
  }();
  return names;
}

std::vector<std::string> peer_names_on(target::Kind kind) {
  std::vector<std::string> out;
  for (const auto& [name, on] : kPeers) {
    if (on == kind) out.emplace_back(name);
  }
  return out;
}

std::vector<fs::path> peer_module_folders() {
  std::error_code error;
  const fs::path program = fs::read_symlink("/proc/self/exe", error);
  return {program.parent_path().parent_path() / "lib" / "peers",
          program.parent_path().parent_path() / "lib" / "tessera" / "peers"};
}

bool is_peer_built(const std::string& name) {
  for (const fs::path& folder : peer_module_folders()) {
    std::error_code error;
    if (fs::exists(folder / file_name(name), error)) return true;
  }
  return false;
}

Result<std::unique_ptr<PeerOp>> open_peer(const std::string& name, const std::string& spec,
                                          int threads) {
  TESSERA_TRY(const Module module, load(name));
  std::array<char, 256> reason{};
  TesseraPeerOp* op = module.create(spec.c_str(), threads, reason.data(), reason.size());
  if (!op) return make_error(ErrorCode::kUnsupported, "{}", reason.data());
  return std::unique_ptr<PeerOp>(std::make_unique<ModuleOp>(module, op));
}

Result<std::unique_ptr<PeerModel>> open_peer_model(const std::string& name, const std::string& path,
                                                   int threads) {
  TESSERA_TRY(const Module module, load(name));
  ModelFunctions f;
  const bool whole = bind(module.handle, "tessera_peer_open_model", &f.open) &&
                     bind(module.handle, "tessera_peer_model_bind_input", &f.bind_input) &&
                     bind(module.handle, "tessera_peer_model_bind_output", &f.bind_output) &&
                     bind(module.handle, "tessera_peer_model_run", &f.run) &&
                     bind(module.handle, "tessera_peer_model_error", &f.error) &&
                     bind(module.handle, "tessera_peer_close_model", &f.close);
  if (!whole) return make_error(ErrorCode::kUnavailable, "it runs operations, not whole models");
  std::array<char, 1024> reason{};
  TesseraPeerModel* model = f.open(path.c_str(), threads, reason.data(), reason.size());
  const char* version = module.version();  // null: the module found no library
  if (!model) {
    return make_error(version ? ErrorCode::kUnsupported : ErrorCode::kUnavailable, "{}",
                      reason.data());
  }
  return std::unique_ptr<PeerModel>(std::make_unique<ModuleModel>(version, f, model));
}

}  // namespace tessera::app
