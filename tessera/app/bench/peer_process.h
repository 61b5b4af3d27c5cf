// A peer in a process of its own, stopped while others are timed: the thread pools of these
// libraries spin on after a call (up to 64 ms seen) and would take the cores from whoever is next.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tessera/machine/runtime/timing.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"

namespace tessera::app {

// What the process is to run, made inside of it.
class PeerWork {
 public:
  virtual ~PeerWork() = default;
  virtual std::string version() const = 0;
  virtual Result<void> run() = 0;
  // Seconds of `calls` runs by the clock of a device; negative: by that of the process.
  virtual Result<double> time(int /*calls*/) { return -1.0; }
  // After a run.
  virtual Result<std::vector<HostTensor>> outputs() = 0;
};

// How long a peer may take, before it is given up.
struct PeerLimits {
  double start_s = 900;  // to load and compile the model and run it once
  double sample_s = 120;
};

class PeerProcess {
 public:
  using MakeWork = std::function<Result<std::unique_ptr<PeerWork>>()>;

  // Makes the work, runs it once and fetches its outputs, of which `outputs` gives types and
  // shapes. The error is that of the work, or kRunFailed with the signal when the process ends.
  static Result<std::unique_ptr<PeerProcess>> start(const MakeWork& make,
                                                    std::vector<HostTensor> outputs,
                                                    const PeerLimits& limits = {});

  // The same with another program, which finds the socket of peer_wire.h as its standard input and
  // is sent `job` first. What it prints is shown only if it ends early.
  static Result<std::unique_ptr<PeerProcess>> start_program(const std::vector<std::string>& command,
                                                            const std::vector<std::string>& job,
                                                            std::vector<HostTensor> outputs,
                                                            const PeerLimits& limits = {});
  ~PeerProcess();
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  const std::string& version() const { return version_; }
  const std::vector<HostTensor>& outputs() const { return outputs_; }

  // As runtime::Sampler; nullopt when the process has ended, a run failed or took too long.
  std::optional<runtime::TakenSample> sample(int calls, bool warm);

 private:
  PeerProcess(pid_t child, int socket, int printed, std::vector<HostTensor> outputs,
              const PeerLimits& limits);
  Result<void> receive_outputs(double deadline_s);
  Result<void> receive(void* data, std::size_t bytes, double deadline_s);
  Error ended();
  std::string last_line() const;
  void resume();
  void stop();

  pid_t child_;
  int socket_;
  int printed_;  // file of what the program printed; -1: none
  PeerLimits limits_;
  std::string version_;
  std::vector<HostTensor> outputs_;
};

// In the process of the peer: makes the work, runs it once, then takes samples until the socket of
// peer_wire.h is closed.
void serve_peer(int socket, const PeerProcess::MakeWork& make);

// The operation `spec` with these inputs; f32 alone crosses the border.
PeerProcess::MakeWork peer_op_work(const std::string& name, const std::string& spec, int threads,
                                   const std::vector<HostTensor>& inputs, const Shape& output);
Result<std::unique_ptr<PeerProcess>> start_peer_op(const std::string& name, const std::string& spec,
                                                   int threads,
                                                   const std::vector<HostTensor>& inputs,
                                                   const Shape& output);

// What a model runs on, as the peers from Python know it, and the type of its arithmetic.
struct PeerPlace {
  std::string device = "cpu";  // or "cuda"
  std::string dtype = "f32";   // or "f16": weights and values of a f32 model as f16

  bool operator==(const PeerPlace&) const = default;
};

// The model file, with tensors for its outputs.
Result<std::unique_ptr<PeerProcess>> start_peer_model(const std::string& name,
                                                      const std::string& path, int threads,
                                                      const std::vector<std::string>& input_names,
                                                      const std::vector<HostTensor>& inputs,
                                                      const std::vector<std::string>& output_names,
                                                      std::vector<HostTensor> outputs,
                                                      const PeerPlace& place = {});

}  // namespace tessera::app
