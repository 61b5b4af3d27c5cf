// Peer libraries opened at run time: `libtessera_peer_<name>.so` beside the program, interface in
// peers/peer.h.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::app {

// One operation of one peer, ready to be timed.
class PeerOp {
 public:
  virtual ~PeerOp() = default;
  virtual std::string version() const = 0;
  virtual Result<void> set_input(int index, const HostTensor& tensor) = 0;
  virtual bool run() = 0;
  // Seconds of `calls` calls by the clock of the device they run on; negative: they run in this
  // process.
  virtual Result<double> time(int calls) = 0;
  virtual Result<HostTensor> output(const Shape& shape) = 0;
};

// Names of the peers that have a module; peer_driver.h has others for whole models.
const std::vector<std::string>& peer_names();
// Those of them that run on such a target.
std::vector<std::string> peer_names_on(target::Kind kind);

// Where modules are looked for, relative to the program.
std::vector<std::filesystem::path> peer_module_folders();

// True if the module is there; its library may still be missing. Loads nothing.
bool is_peer_built(const std::string& name);

// kUnavailable when the module is not there; kUnsupported when the library has no such operation.
Result<std::unique_ptr<PeerOp>> open_peer(const std::string& name, const std::string& spec,
                                          int threads);

// A whole ONNX model in a peer library.
class PeerModel {
 public:
  virtual ~PeerModel() = default;
  virtual std::string version() const = 0;
  // The tensors are kept: a run reads the inputs and writes the outputs in place.
  virtual Result<void> bind(const std::vector<std::string>& input_names,
                            const std::vector<HostTensor>& inputs,
                            const std::vector<std::string>& output_names,
                            const std::vector<HostTensor>& outputs) = 0;
  virtual Result<void> run() = 0;
};

// kUnavailable: no such module, no library for it, or one that runs no models; kUnsupported: it
// refuses this one.
Result<std::unique_ptr<PeerModel>> open_peer_model(const std::string& name, const std::string& path,
                                                   int threads);

}  // namespace tessera::app
