#include "tessera/trials/measure/measurer.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <map>
#include <thread>
#include <utility>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/machine_row.h"
#include "tessera/machine/target/match.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/process.h"
#include "tessera/trials/measure/server.h"
#include "tessera/trials/measure/verdict.h"
#include "tessera/trials/measure/worker_process.h"

namespace tessera::measure {
namespace {

constexpr double kEndSeconds = 5;  // that a server has to end in

// What the latest trials say about the machine.
class MachineTracker {
 public:
  void add(const Measurement& m, double waiting_share) {
    if (m.calibration_s <= 0) return;
    state_.calibration_s = m.calibration_s;
    const bool first = state_.calibration_best_s == 0;
    state_.calibration_best_s =
        first ? m.calibration_s : std::min(state_.calibration_best_s, m.calibration_s);
    recent_s_ = first ? m.calibration_s : std::lerp(recent_s_, m.calibration_s, kWeight);
    const double share = std::clamp(waiting_share, 0.0, 1.0);
    state_.waiting_share = first ? share : std::lerp(state_.waiting_share, share, kWeight);
    state_.busy =
        state_.waiting_share > kBusyShare || recent_s_ > kBusySlowdown * state_.calibration_best_s;
  }
  const MachineState& state() const { return state_; }

 private:
  // About the last ten trials count.
  static constexpr double kWeight = 0.1;
  static constexpr double kBusyShare = 0.05, kBusySlowdown = 1.2;
  MachineState state_;
  double recent_s_ = 0;
};

class LocalMeasurer final : public Measurer {
 public:
  struct KnownTask {
    std::size_t number = 0;
    bool cold_caches = false;
  };
  LocalMeasurer(Channel server, pid_t pid, std::map<std::string, KnownTask> tasks)
      : server_(std::move(server)), pid_(pid), tasks_(std::move(tasks)) {}

  // The end of the channel ends the server, and that ends the workers. One that hangs is killed,
  // which ends them as well.
  ~LocalMeasurer() override {
    server_.close();
    if (!has_ended(kEndSeconds)) kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void submit(std::vector<Trial> trials) override {
    for (Trial& trial : trials) send(std::move(trial), 0, 0);
  }
  void submit_together(std::vector<Trial> trials) override {
    send_group(std::move(trials), /*compared=*/false);
  }

  std::vector<Measurement> collect(double timeout_s) override {
    const Clock::time_point end = seconds_from_now(timeout_s);
    while (results_.empty() && !waiting_.empty() && receive_until(end)) {
    }
    return std::exchange(results_, {});
  }

  std::size_t pending() const override { return waiting_.size() + results_.size(); }

  void cancel() override {
    server_.send(Kind::kCancel, encode(Cancel{next_}));
    waiting_.clear();
    results_.clear();
  }

  std::vector<Measurement> compare(const std::vector<Trial>& trials) override;
  MachineState machine() const override { return machine_.state(); }

 private:
  // Within the time; it is waited for afterwards.
  bool has_ended(double seconds) const {
    double pause_s = 1e-4;
    for (const Clock::time_point end = seconds_from_now(seconds);;) {
      siginfo_t info{};
      const int asked = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
      if ((asked == 0 && info.si_pid == pid_) || (asked < 0 && errno != EINTR)) return true;
      if (seconds_until(end) <= 0) return false;
      std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
      pause_s = std::min(2 * pause_s, 0.02);
    }
  }

  struct Waiting {
    std::uint64_t id = 0;   // of the caller
    bool compared = false;  // by compare(), which waits for it
  };

  std::uint64_t send(Trial trial, std::uint64_t group, std::uint64_t group_size,
                     bool compared = false) {
    const std::uint64_t number = next_++;
    waiting_[number] = {trial.id, compared};
    const auto task = tasks_.find(trial.task);
    if (task == tasks_.end()) {
      settle(number, {.id = trial.id,
                      .outcome = Outcome::kInvalidStatic,
                      .reason = fmt::format("there is no task {}", trial.task)});
    } else if (!server_.send(Kind::kSubmit,
                             encode(Job{number, group, group_size, trial, task->second.number,
                                        task->second.cold_caches}))) {
      lose_all();
    }
    return number;
  }

  std::vector<std::uint64_t> send_group(std::vector<Trial> trials, bool compared);

  // False at the end of the time.
  bool receive_until(Clock::time_point end) {
    pollfd fd{server_.fd(), POLLIN, 0};
    const double ms = 1e3 * seconds_until(end);
    const int ready =
        server_.open() ? poll(&fd, 1, static_cast<int>(std::clamp(ms + 0.5, 0.0, 1e9))) : 1;
    if (ready <= 0) return Clock::now() < end;
    const bool alive = server_.open() && server_.fill();
    while (const std::optional<Frame> frame = server_.next()) {
      Measured measured;
      if (frame->kind != Kind::kMeasured || !decode(*frame, &measured)) continue;
      machine_.add(measured.measurement, measured.waiting_share);
      settle(measured.number, std::move(measured.measurement));
    }
    if (!alive) lose_all();
    return true;
  }

  void settle(std::uint64_t number, Measurement m) {
    const auto found = waiting_.find(number);
    if (found == waiting_.end()) return;  // cancelled
    if (found->second.compared) {
      compared_[number] = std::move(m);
    } else {
      results_.push_back(std::move(m));
    }
    waiting_.erase(found);
  }

  void lose_all() {
    server_.close();
    while (!waiting_.empty()) {
      const auto [number, waiting] = *waiting_.begin();
      settle(number, {.id = waiting.id,
                      .outcome = Outcome::kWorkerLost,
                      .reason = "the server of the workers is gone"});
    }
  }

  Channel server_;
  pid_t pid_;
  std::map<std::string, KnownTask> tasks_;  // by key
  std::uint64_t next_ = 1;
  std::map<std::uint64_t, Waiting> waiting_;
  std::vector<Measurement> results_;
  std::map<std::uint64_t, Measurement> compared_;
  MachineTracker machine_;
};

// Their numbers, in the order of the trials.
std::vector<std::uint64_t> LocalMeasurer::send_group(std::vector<Trial> trials, bool compared) {
  std::vector<std::uint64_t> numbers;
  const std::uint64_t group = next_;
  std::uint64_t valid = 0;
  const bool in_place = !trials.empty() && trials[0].in_place;
  const std::size_t most = in_place ? trials.size() : kMostCompared;
  for (std::size_t i = 0; i < std::min(trials.size(), most); ++i)
    valid += tasks_.contains(trials[i].task) ? 1 : 0;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    if (i < most) {
      trials[i].in_place = in_place;
      trials[i].final |= !in_place;
      numbers.push_back(send(std::move(trials[i]), group, valid, compared));
    } else {
      numbers.push_back(next_++);
      waiting_[numbers.back()] = {trials[i].id, compared};
      settle(numbers.back(), {.id = trials[i].id,
                              .outcome = Outcome::kInvalidStatic,
                              .reason = "too many to compare at once"});
    }
  }
  return numbers;
}

std::vector<Measurement> LocalMeasurer::compare(const std::vector<Trial>& trials) {
  const std::vector<std::uint64_t> numbers = send_group(trials, /*compared=*/true);
  const auto there = [&](std::uint64_t n) { return compared_.count(n) != 0; };
  while (!std::ranges::all_of(numbers, there)) receive_until(seconds_from_now(1));
  std::vector<Measurement> out;
  for (const std::uint64_t n : numbers) out.push_back(std::move(compared_[n]));
  compared_.clear();
  return out;
}

// What a driver says of the device at hand.
struct Answer {
  bool ok = false;
  ErrorCode code{};
  std::string text;  // of the target, or why there is none
};
template <class A>
void fields(A& a, Answer& s) {
  a(s.ok, s.code, s.text);
}

Result<void> check(const std::vector<MeasuredTask>& tasks, const target::Target& target,
                   const MeasureOptions& options) {
  for (const MeasuredTask& task : tasks) TESSERA_DO(te::verify(task.dag));
  if (!target.row().launches && !target::runs_on_host(target)) {
    return make_error(ErrorCode::kUnsupported, "code for target {} does not run on this machine",
                      target.name);
  }
  if (options.threads < 1 || options.threads > 1024) {
    return make_error(ErrorCode::kInvalidArgument, "{} threads cannot be measured",
                      options.threads);
  }
  if (options.build_workers < 0 || options.build_workers > 256) {
    return make_error(ErrorCode::kInvalidArgument, "{} build workers cannot be started",
                      options.build_workers);
  }
  const bool sane = options.min_samples >= 1 && options.max_samples >= options.min_samples &&
                    options.build_timeout_s > 0 && options.run_timeout_s > 0 &&
                    options.loser_factor >= 1;
  if (!sane)
    return make_error(ErrorCode::kInvalidArgument, "limits of samples and time must be positive");
  return {};
}

}  // namespace

Result<target::Target> ask_target(const std::string& name) {
  if (name == "host") return target::with_user_rates(target::host(), name);
  const auto kind = target::kind_from_text(name);
  const bool device = kind && target::row_of(*kind).launches;
  if (target::names_row(name) && !device) {
    TESSERA_TRY(const target::MachineRow row, target::find_row(name));
    const bool gpu = row.target.is_gpu();
    TESSERA_TRY(target::Target here, ask_target(gpu ? target::to_text(row.target.kind) : "host"));
    if (!target::same_machine(row.target, here))
      return make_error(ErrorCode::kUnsupported,
                        "machine row {}: of another machine than the one at hand, where "
                        "candidates are measured",
                        name);
    here.rates = row.target.rates;
    return here;
  }
  if (!device) {
    TESSERA_TRY(const target::Target known, target::find_target(name));
    return make_error(ErrorCode::kUnsupported,
                      "target {}: candidates are measured on the machine at hand: host, cuda or "
                      "opencl",
                      known.name);
  }
  const auto answer = [&](Channel& channel) {
    const Result<target::Target> found = runtime::resolve_target(name);
    Answer said;
    said.ok = found.ok();
    said.code = found.ok() ? ErrorCode{} : found.error().code;
    said.text = found.ok() ? target::to_text(*found) : found.error().message;
    channel.send(Kind::kTarget, encode(said));
  };
  Channel channel;
  const pid_t pid = fork_worker("tessera-ask", answer, &channel);
  if (pid == 0) return make_error(ErrorCode::kUnavailable, "target {}: cannot fork", name);
  const std::optional<Frame> frame = channel.receive();
  const int status = bury_worker(pid);
  Answer said;
  if (!frame || !decode(*frame, &said)) {
    return make_error(ErrorCode::kUnavailable, "target {}: its driver ended by {}", name,
                      describe(status));
  }
  if (!said.ok) return Error{said.code, said.text};
  TESSERA_TRY(target::Target found, target::target_from_text(said.text));
  return target::with_user_rates(std::move(found), name);
}

Result<std::unique_ptr<Measurer>> start_local_measurer(std::vector<MeasuredTask> tasks,
                                                       const target::Target& target,
                                                       const MeasureOptions& options) {
  TESSERA_DO(check(tasks, target, options));
  target::allowed_cpus();  // settled before any process restricts itself
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return make_error(ErrorCode::kUnavailable, "no socket for workers: {}", std::strerror(errno));
  Channel ours(ends[0]), theirs(ends[1]);
  std::map<std::string, LocalMeasurer::KnownTask> numbers;
  std::vector<te::Dag> dags;
  for (MeasuredTask& task : tasks) {
    numbers.emplace(task.key,
                    LocalMeasurer::KnownTask{dags.size(), task.cold_caches || options.cold_caches});
    dags.push_back(std::move(task.dag));
  }
  const pid_t pid = fork();
  if (pid < 0)
    return make_error(ErrorCode::kUnavailable, "cannot fork workers: {}", std::strerror(errno));
  if (pid == 0) {
    become_worker(theirs.fd(), "tessera-serve");
    // An error that nobody can handle ends the server; the owner sees the end of the channel.
    try {
      Server(std::move(theirs), std::move(dags), target, options).run();
    } catch (...) {
      _exit(1);
    }
    _exit(0);
  }
  return std::unique_ptr<Measurer>(
      std::make_unique<LocalMeasurer>(std::move(ours), pid, std::move(numbers)));
}

}  // namespace tessera::measure
