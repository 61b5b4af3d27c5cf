#include "tessera/app/bench/peer_process.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <exception>
#include <string_view>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/app/bench/peer.h"
#include "tessera/app/bench/peer_driver.h"
#include "tessera/app/bench/peer_wire.h"
#include "tessera/machine/runtime/run_queue.h"

namespace tessera::app {
namespace {

constexpr int kNotStarted = 127;  // exit status, as of a shell

struct Sockets {
  int ours = -1, theirs = -1;

  static Result<Sockets> make() {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return make_error(ErrorCode::kRunFailed, "socketpair: {}", std::strerror(errno));
    return Sockets{ends[0], ends[1]};
  }
};

// For the peer's end, which waits for us as long as it takes.
bool sent(int socket, const void* data, std::size_t bytes) {
  return send_bytes(socket, data, bytes, kForeverS) == Transfer::kAll;
}

bool greet(int socket, const Result<std::string>& text) {
  const std::string& message = text.ok() ? *text : text.error().message;
  const PeerGreeting greeting{.ok = text.ok() ? 1 : 0,
                              .code = text.ok() ? 0 : static_cast<int>(text.error().code),
                              .length = message.size()};
  return sent(socket, &greeting, sizeof greeting) && sent(socket, message.data(), message.size());
}

Result<std::vector<HostTensor>> first_run(PeerWork& work) {
  TESSERA_DO(work.run());
  return work.outputs();
}

PeerReply take(PeerWork& work, PeerRequest request, runtime::RunQueueClock& clock) {
  const auto waited_s = [&] { return 1e-9 * static_cast<double>(clock.elapsed_wait_ns()); };
  PeerReply reply;
  reply.late_wait_s = waited_s();
  bool ok = request.warm == 0 || work.run().ok();
  (void)waited_s();
  const Result<double> on_device = ok ? work.time(request.calls) : Result<double>(-1.0);
  ok = ok && on_device.ok();
  const double start_s = steady_now_s();
  if (ok && *on_device < 0) {
    for (int i = 0; i < request.calls && ok; ++i) ok = work.run().ok();
  }
  reply.total_s = ok && *on_device >= 0 ? *on_device : steady_now_s() - start_s;
  reply.wait_s = waited_s();
  reply.ok = ok ? 1 : 0;
  return reply;
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
  Result<double> time(int calls) override { return op_->time(calls); }
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

void serve_peer(int socket, const PeerProcess::MakeWork& make) {
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
    if (!sent(socket, t.data(), t.bytes())) return;
  }
  runtime::RunQueueClock clock;
  PeerRequest request;
  while (receive_bytes(socket, &request, sizeof request, kForeverS) == Transfer::kAll) {
    const PeerReply reply = take(work, request, clock);
    if (!sent(socket, &reply, sizeof reply)) return;
  }
}

Result<std::unique_ptr<PeerProcess>> PeerProcess::start(const MakeWork& make,
                                                        std::vector<HostTensor> outputs,
                                                        const PeerLimits& limits) {
  TESSERA_TRY(const Sockets sockets, Sockets::make());
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(sockets.ours);
    close(sockets.theirs);
    return make_error(ErrorCode::kRunFailed, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    close(sockets.ours);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    try {
      serve_peer(sockets.theirs, make);
    } catch (const std::exception& e) {
      greet(sockets.theirs, make_error(ErrorCode::kRunFailed, "{}", e.what()));
    }
    _exit(0);  // the libraries' threads and handlers end with it
  }
  close(sockets.theirs);
  std::unique_ptr<PeerProcess> process(
      new PeerProcess(child, sockets.ours, -1, std::move(outputs), limits));
  TESSERA_DO(process->receive_outputs(steady_now_s() + limits.start_s));
  process->stop();
  return process;
}

Result<std::unique_ptr<PeerProcess>> PeerProcess::start_program(
    const std::vector<std::string>& command, const std::vector<std::string>& job,
    std::vector<HostTensor> outputs, const PeerLimits& limits) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  TESSERA_TRY(const Sockets sockets, Sockets::make());
  const int printed = memfd_create("tessera-peer", MFD_CLOEXEC);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    close(sockets.ours);
    close(sockets.theirs);
    if (printed >= 0) close(printed);
    return make_error(ErrorCode::kRunFailed, "fork: {}", std::strerror(errno));
  }
  if (child == 0) {
    // Only calls that are safe after fork() in a process with threads.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(0);
    dup2(sockets.theirs, STDIN_FILENO);
    if (printed >= 0) {
      dup2(printed, STDOUT_FILENO);
      dup2(printed, STDERR_FILENO);
    }
    execvp(arguments[0], arguments.data());
    _exit(kNotStarted);
  }
  close(sockets.theirs);
  std::unique_ptr<PeerProcess> process(
      new PeerProcess(child, sockets.ours, printed, std::move(outputs), limits));
  const double deadline_s = steady_now_s() + limits.start_s;
  for (const std::string& part : job) {
    // A program that does not take all of it may have said why.
    if (send_bytes(sockets.ours, part.data(), part.size(), deadline_s) != Transfer::kAll) break;
  }
  TESSERA_DO(process->receive_outputs(deadline_s));
  process->stop();
  return process;
}

PeerProcess::PeerProcess(pid_t child, int socket, int printed, std::vector<HostTensor> outputs,
                         const PeerLimits& limits)
    : child_(child),
      socket_(socket),
      printed_(printed),
      limits_(limits),
      outputs_(std::move(outputs)) {}

PeerProcess::~PeerProcess() {
  close(socket_);
  if (printed_ >= 0) close(printed_);
  if (child_ <= 0) return;
  kill(child_, SIGKILL);
  while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

Result<void> PeerProcess::receive(void* data, std::size_t bytes, double deadline_s) {
  switch (receive_bytes(socket_, data, bytes, deadline_s)) {
    case Transfer::kAll:
      return {};
    case Transfer::kLate:
      return make_error(ErrorCode::kRunFailed, "not ready after {:.0f} s", limits_.start_s);
    case Transfer::kEnd:
      break;
  }
  return ended();
}

Result<void> PeerProcess::receive_outputs(double deadline_s) {
  PeerGreeting greeting;
  TESSERA_DO(receive(&greeting, sizeof greeting, deadline_s));
  if (!is_plausible(greeting, static_cast<std::int32_t>(ErrorCode::kUnavailable)))
    return make_error(ErrorCode::kRunFailed, "it speaks another protocol");
  std::string text(greeting.length, ' ');
  TESSERA_DO(receive(text.data(), text.size(), deadline_s));
  if (greeting.ok == 0) return Error{static_cast<ErrorCode>(greeting.code), text};
  version_ = text;
  for (HostTensor& t : outputs_) TESSERA_DO(receive(t.data(), t.bytes(), deadline_s));
  return {};
}

Error PeerProcess::ended() {
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kNotStarted)
    return make_error(ErrorCode::kUnavailable, "its program cannot be started");
  std::string message = "its process ended";
  if (WIFSIGNALED(status)) message += fmt::format(": {}", strsignal(WTERMSIG(status)));
  if (const std::string line = last_line(); !line.empty()) message += fmt::format(" ({})", line);
  return Error{ErrorCode::kRunFailed, message};
}

// Of what the program printed; the reason, more often than not.
std::string PeerProcess::last_line() const {
  if (printed_ < 0) return "";
  std::array<char, 1024> tail{};
  struct stat file {};
  if (fstat(printed_, &file) != 0) return "";
  const off_t from = std::max<off_t>(0, file.st_size - static_cast<off_t>(tail.size()));
  const ssize_t n = pread(printed_, tail.data(), tail.size(), from);
  std::string_view text(tail.data(), static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0)
    text.remove_suffix(1);
  return std::string(text.substr(text.find_last_of('\n') + 1));
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
  const PeerRequest request{.calls = calls, .warm = warm ? 1 : 0};
  PeerReply reply;
  const double deadline_s = steady_now_s() + limits_.sample_s;
  const bool answered =
      send_bytes(socket_, &request, sizeof request, deadline_s) == Transfer::kAll &&
      receive_bytes(socket_, &reply, sizeof reply, deadline_s) == Transfer::kAll;
  // What did not answer would answer the next request with this one's sample.
  if (!answered && child_ > 0) kill(child_, SIGKILL);
  stop();
  if (!answered || reply.ok == 0 || !is_plausible(reply)) return std::nullopt;
  return runtime::TakenSample{.sample = {.total_s = reply.total_s, .wait_s = reply.wait_s},
                              .late_wait_s = reply.late_wait_s};
}

PeerProcess::MakeWork peer_op_work(const std::string& name, const std::string& spec, int threads,
                                   const std::vector<HostTensor>& inputs, const Shape& output) {
  return [=]() -> Result<std::unique_ptr<PeerWork>> {
    TESSERA_TRY(std::unique_ptr<PeerOp> op, open_peer(name, spec, threads));
    for (std::size_t i = 0; i < inputs.size(); ++i)
      TESSERA_DO(op->set_input(static_cast<int>(i), inputs[i]));
    return std::unique_ptr<PeerWork>(std::make_unique<OpWork>(std::move(op), output));
  };
}

Result<std::unique_ptr<PeerProcess>> start_peer_op(const std::string& name, const std::string& spec,
                                                   int threads,
                                                   const std::vector<HostTensor>& inputs,
                                                   const Shape& output) {
  if (is_driver_peer(name) && !is_peer_built(name))
    return make_error(ErrorCode::kUnsupported, "it runs whole models, not operations");
  return PeerProcess::start(peer_op_work(name, spec, threads, inputs, output),
                            {HostTensor(DType::kF32, output)});
}

Result<std::unique_ptr<PeerProcess>> start_peer_model(const std::string& name,
                                                      const std::string& path, int threads,
                                                      const std::vector<std::string>& input_names,
                                                      const std::vector<HostTensor>& inputs,
                                                      const std::vector<std::string>& output_names,
                                                      std::vector<HostTensor> outputs,
                                                      const PeerPlace& place) {
  const auto make = [&]() -> Result<std::unique_ptr<PeerWork>> {
    TESSERA_TRY(std::unique_ptr<PeerModel> model, open_peer_model(name, path, threads));
    TESSERA_DO(model->bind(input_names, inputs, output_names, outputs));
    return std::unique_ptr<PeerWork>(std::make_unique<ModelWork>(std::move(model), outputs));
  };
  const bool scripted = is_driver_peer(name);
  if (place != PeerPlace{} && !scripted)
    return make_error(ErrorCode::kUnsupported, "it runs f32 models on the CPU");
  if (place == PeerPlace{} && (!scripted || is_peer_built(name))) {
    Result<std::unique_ptr<PeerProcess>> started = PeerProcess::start(make, outputs);
    // The library may be there for Python alone.
    if (started.ok() || !scripted || started.error().code != ErrorCode::kUnavailable)
      return started;
  }
  return start_driver_peer(find_peer_driver(), {name, path, threads, place}, {input_names, inputs},
                           {output_names, std::move(outputs)});
}

}  // namespace tessera::app
