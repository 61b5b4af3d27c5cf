// Peers that run whole models from Python, each in a process of its own: peers/python/driver.py
// with the interpreter that has them. Tessera itself needs neither.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/app/bench/peer_process.h"

namespace tessera::app {

// Peers that the driver knows, in alphabetical order.
const std::vector<std::string>& driver_peer_names();
bool is_driver_peer(const std::string& name);

struct PeerDriver {
  std::string interpreter, script;  // empty script: not there
};

// The interpreter: environment TESSERA_PEERS_PYTHON, else the virtual environment of `./do peers`
// beside the peer modules, else python3 of the PATH. The script: beside the modules, or environment
// TESSERA_PEERS_DRIVER.
PeerDriver find_peer_driver();

struct DriverJob {
  std::string peer, model;  // name, and path of the ONNX file
  int threads = 1;
  PeerPlace place = {};
};

struct NamedList {
  std::vector<std::string> names;
  std::vector<HostTensor> tensors;
};

// kUnavailable, with what installs it, when script, interpreter or library is absent; kUnsupported
// when the library refuses the model.
Result<std::unique_ptr<PeerProcess>> start_driver_peer(const PeerDriver& driver,
                                                       const DriverJob& job,
                                                       const NamedList& inputs, NamedList outputs,
                                                       const PeerLimits& limits = {});

}  // namespace tessera::app
