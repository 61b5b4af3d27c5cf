#include "tessera/driver/peer_process.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/driver/peer.h"
#include "tessera/runtime/run_queue.h"

namespace tessera::driver {
namespace {

bool send_bytes(int socket, const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

bool receive_bytes(int socket, void* data, std::size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t n = recv(socket, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    bytes -= static_cast<std::size_t>(n);
  }
  return true;
}

// Sent first: how it went, then the version or the reason.
struct Greeting {
  ErrorCode code = ErrorCode::kRunFailed;
  bool ok = false;
  std::size_t length = 0;
};

struct Request {
  int calls = 1;
  bool warm = false;
};

struct Reply {
  runtime::TakenSample taken;
  bool ok = false;
};

bool greet(int socket, const Result<std::string>& text) {
  const std::string& message = text.ok() ? *text : text.error().message;
  const Greeting greeting{.code = text.ok() ? ErrorCode::kRunFailed : text.error().code,
                          .ok = text.ok(),
                          .length = message.size()};
  return send_bytes(socket, &greeting, sizeof greeting) &&
         send_bytes(socket, message.data(), message.size());
}

Result<std::vector<HostTensor>> first_run(PeerWork& work) {
  TESSERA_DO(work.run());
  return work.outputs();
}

Reply take(PeerWork& work, Request request, runtime::RunQueueClock& clock) {
  const auto waited_s = [&] { return 1e-9 * static_cast<double>(clock.elapsed_wait_ns()); };
  Reply reply;
  reply.taken.late_wait_s = waited_s();
  reply.ok = !request.warm || work.run().ok();
  (void)waited_s();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < request.calls && reply.ok; ++i) reply.ok = work.run().ok();
  reply.taken.sample.total_s =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  reply.taken.sample.wait_s = waited_s();
  return reply;
}

void serve(int socket, const PeerProcess::MakeWork& make) {
  Result<std::unique_ptr<PeerWork>> made = make();
  if (!made.ok()) {
    greet(socket, made.error());
    return;
  }
  PeerWork& work = **made;
  const Result<std::vector<HostTensor>> outputs = first_run(work);
  if (!outputs.ok()) {
    greet(socket, outputs.error());
    return;
  }
  if (!greet(socket, work.version())) return;
  for (const HostTensor& t : *outputs) {
    if (!send_bytes(socket, t.data(), t.bytes())) return;
  }
  runtime::RunQueueClock clock;
  Request request;
  while (receive_bytes(socket, &request, sizeof request)) {
    const Reply reply = take(work, request, clock);
    if (!send_bytes(socket, &reply, sizeof reply)) return;
  }
}

class OpWork final : public PeerWork {
 public:
  OpWork(std::unique_ptr<PeerOp> op, Shape output)
      : op_(std::move(op)), shape_(std::move(output)) {}
  std::string version() const override { return op_->version(); }
  Result<void> run() override {
    if (op_->run()) return {};
    return make_error(ErrorCode::kRunFailed, "the call failed");
  }
  Result<std::vector<HostTensor>> outputs() override {
    TESSERA_TRY(HostTensor out, op_->output(shape_));
    return std::vector<HostTensor>{std::move(out)};
  }

 private:
  std::unique_ptr<PeerOp> op_;
  Shape shape_;
};

class ModelWork final : public PeerWork {
 public:
  ModelWork(std::unique_ptr<PeerModel> model, std::vector<HostTensor> outputs)
      : model_(std::move(model)), outputs_(std::move(outputs)) {}
  std::string version() const override { return model_->version(); }
  Result<void> run() override { return model_->run(); }
  Result<std::vector<HostTensor>> outputs() override { return outputs_; }

 private:
  std::unique_ptr<PeerModel> model_;
  std::vector<HostTensor> outputs_;  // bound: every run writes them
};

}  // namespace

Result<std::unique_ptr<PeerProcess>> PeerProcess::start(const MakeWork& make,
                                                        std::vector<HostTensor> outputs) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return make_error(ErrorCode::kRunFailed, "socketpair: {}", std::strerror(errno));
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(sockets[0]);
    close(sockets[1]);
    return make_error(ErrorCode::kRunFailed, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    close(sockets[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    try {
      serve(sockets[1], make);
    } catch (const std::exception& e) {
      greet(sockets[1], make_error(ErrorCode::kRunFailed, "{}", e.what()));
    }
    _exit(0);  // the libraries' threads and handlers end with it
  }
  close(sockets[1]);
  std::unique_ptr<PeerProcess> process(new PeerProcess(child, sockets[0], std::move(outputs)));
  TESSERA_DO(process->receive_outputs());
  process->stop();
  return process;
}

PeerProcess::PeerProcess(pid_t child, int socket, std::vector<HostTensor> outputs)
    : child_(child), socket_(socket), outputs_(std::move(outputs)) {}

PeerProcess::~PeerProcess() {
  close(socket_);
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> PeerProcess::receive_outputs() {
  Greeting greeting;
  if (!receive_bytes(socket_, &greeting, sizeof greeting)) return ended();
  std::string text(greeting.length, ' ');
  if (!receive_bytes(socket_, text.data(), text.size())) return ended();
  if (!greeting.ok) return Error{greeting.code, text};
  version_ = text;
  for (HostTensor& t : outputs_) {
    if (!receive_bytes(socket_, t.data(), t.bytes())) return ended();
  }
  return {};
}

Error PeerProcess::ended() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (WIFSIGNALED(status))
    return make_error(ErrorCode::kRunFailed, "its process ended: {}", strsignal(WTERMSIG(status)));
  return make_error(ErrorCode::kRunFailed, "its process ended");
}

// Returns when no thread of it runs any more.
void PeerProcess::stop() {
  if (child_ <= 0) return;
  kill(child_, SIGSTOP);
  int status = 0;
  while (waitpid(child_, &status, WUNTRACED) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) || WIFSIGNALED(status)) child_ = -1;
}

void PeerProcess::resume() {
  if (child_ > 0) kill(child_, SIGCONT);
}

std::optional<runtime::TakenSample> PeerProcess::sample(int calls, bool warm) {
  if (child_ <= 0) return std::nullopt;
  resume();
  const Request request{.calls = calls, .warm = warm};
  Reply reply;
  const bool answered =
      send_bytes(socket_, &request, sizeof request) && receive_bytes(socket_, &reply, sizeof reply);
  stop();
  if (!answered || !reply.ok) return std::nullopt;
  return reply.taken;
}

Result<std::unique_ptr<PeerProcess>> start_peer_op(const std::string& name, const std::string& spec,
                                                   int threads,
                                                   const std::vector<HostTensor>& inputs,
                                                   const Shape& output) {
  const auto make = [&]() -> Result<std::unique_ptr<PeerWork>> {
    TESSERA_TRY(std::unique_ptr<PeerOp> op, open_peer(name, spec, threads));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      TESSERA_DO(op->set_input(static_cast<int>(i), inputs[i]));
    return std::unique_ptr<PeerWork>(std::make_unique<OpWork>(std::move(op), output));
  };
  return PeerProcess::start(make, {HostTensor(DType::kF32, output)});
}

Result<std::unique_ptr<PeerProcess>> start_peer_model(const std::string& name,
                                                      const std::string& path, int threads,
                                                      const std::vector<std::string>& input_names,
                                                      const std::vector<HostTensor>& inputs,
                                                      const std::vector<std::string>& output_names,
                                                      std::vector<HostTensor> outputs) {
  const auto make = [&]() -> Result<std::unique_ptr<PeerWork>> {
    TESSERA_TRY(std::unique_ptr<PeerModel> model, open_peer_model(name, path, threads));
    TESSERA_DO(model->bind(input_names, inputs, output_names, outputs));
    return std::unique_ptr<PeerWork>(std::make_unique<ModelWork>(std::move(model), outputs));
  };
  return PeerProcess::start(make, outputs);
}

}  // namespace tessera::driver
