#include "tessera/app/bench/peer_driver.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "tessera/app/bench/peer.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

std::string from_environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// The first of `name` in the folders of peer modules.
std::string beside_modules(const char* name) {
  for (const fs::path& folder : peer_module_folders()) {
    std::error_code error;
    if (fs::exists(folder / name, error)) return (folder / name).string();
  }
  return "";
}

nlohmann::json description(const NamedList& list) {
  auto out = nlohmann::json::array();
  for (std::size_t i = 0; i < list.names.size(); ++i) {
    const HostTensor& t = list.tensors[i];
    out.push_back({{"name", list.names[i]}, {"dtype", to_text(t.dtype())}, {"shape", t.shape()}});
  }
  return out;
}

}  // namespace

const std::vector<std::string>& driver_peer_names() {
  static const std::vector<std::string> names = {
      "iree",          "litert",    "openvino",      "openvino_default",
      "ort",           "torch",     "torch_compile", "torch_compile_default",
      "torch_default", "torch_max", "tvm",           "xla",
      "xla_default"};
  return names;
}

bool is_driver_peer(const std::string& name) {
  const std::vector<std::string>& names = driver_peer_names();
  return std::find(names.begin(), names.end(), name) != names.end();
}

PeerDriver find_peer_driver() {
  PeerDriver found{.interpreter = from_environment("TESSERA_PEERS_PYTHON"),
                   .script = from_environment("TESSERA_PEERS_DRIVER")};
  if (found.interpreter.empty()) found.interpreter = beside_modules("venv/bin/python3");
  if (found.interpreter.empty()) found.interpreter = "python3";
  if (found.script.empty()) found.script = beside_modules("python/driver.py");
  return found;
}

Result<std::unique_ptr<PeerProcess>> start_driver_peer(const PeerDriver& driver,
                                                       const DriverJob& job,
                                                       const NamedList& inputs, NamedList outputs,
                                                       const PeerLimits& limits) {
  if (driver.script.empty()) {
    return make_error(ErrorCode::kUnavailable,
                      "peers/python/driver.py is not beside the peer modules; environment "
                      "TESSERA_PEERS_DRIVER may name it");
  }
  nlohmann::json codes;
  for (const ErrorCode code :
       {ErrorCode::kUnavailable, ErrorCode::kUnsupported, ErrorCode::kRunFailed}) {
    codes[to_text(code)] = static_cast<int>(code);
  }
  const std::string text = nlohmann::json{
      {"peer", job.peer},
      {"model", job.model},
      {"threads", job.threads},
      {"device", job.place.device},
      {"dtype", job.place.dtype},
      {"codes", codes},
      {"inputs", description(inputs)},
      {"outputs",
       description(outputs)}}.dump();
  const std::uint64_t length = text.size();
  std::vector<std::string> parts = {
      std::string(reinterpret_cast<const char*>(&length), sizeof length), text};
  for (const HostTensor& t : inputs.tensors)
    parts.emplace_back(static_cast<const char*>(t.data()), t.bytes());
  Result<std::unique_ptr<PeerProcess>> started = PeerProcess::start_program(
      {driver.interpreter, driver.script, job.peer}, parts, std::move(outputs.tensors), limits);
  if (!started.ok() && started.error().code == ErrorCode::kUnavailable) {
    return started.error().with_context(driver.interpreter);
  }
  return started;
}

}  // namespace tessera::app
