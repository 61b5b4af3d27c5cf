#include "tessera/trials/measure/model_copies.h"

#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/trials/measure/worker_process.h"

namespace tessera::measure {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr int kMostCopies = kPageBytes / sizeof(std::int64_t);

void run_for_ever(const PlacedModel& placed, int threads, volatile std::int64_t* runs) {
  runtime::ThreadPool pool({.threads = threads});
  runtime::CpuDevice device(pool);
  exec::ModelRunner runner(placed.model, device);
  for (std::size_t i = 0; i < placed.inputs.size(); ++i) {
    if (!runner.set_input(i, placed.inputs[i]).ok()) return;
  }
  while (runner.run().ok()) *runs = *runs + 1;
}

}  // namespace

Result<std::unique_ptr<ModelCopies>> ModelCopies::start(std::shared_ptr<const PlacedModel> model,
                                                        int copies, int threads) {
  if (copies < 0 || copies > kMostCopies) {
    return make_error(ErrorCode::kInvalidArgument, "{} copies of a model: at most {} can run",
                      copies, kMostCopies);
  }
  void* page = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED)
    return make_error(ErrorCode::kUnavailable, "no memory for copies: {}", std::strerror(errno));
  std::unique_ptr<ModelCopies> out(new ModelCopies(static_cast<volatile std::int64_t*>(page)));
  for (int i = 0; i < copies; ++i) {
    Copy copy;
    volatile std::int64_t* runs = out->runs_ + i;
    copy.pid = fork_worker(
        "tessera-copy", [&](Channel&) { run_for_ever(*model, threads, runs); }, &copy.channel);
    if (copy.pid == 0)
      return make_error(ErrorCode::kUnavailable, "cannot fork copy {} of the model", i + 1);
    out->copies_.push_back(std::move(copy));
  }
  return out;
}

ModelCopies::~ModelCopies() {
  for (const Copy& copy : copies_) bury_worker(copy.pid);
  munmap(const_cast<std::int64_t*>(runs_), kPageBytes);
}

int ModelCopies::ended() const {
  int count = 0;
  for (const Copy& copy : copies_) {
    siginfo_t info{};
    // It stays a zombie: the number must not be that of another process when it is buried.
    const int done = waitid(P_PID, static_cast<id_t>(copy.pid), &info, WEXITED | WNOHANG | WNOWAIT);
    count += done == 0 && info.si_pid == copy.pid ? 1 : 0;
  }
  return count;
}

std::int64_t ModelCopies::runs() {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < copies_.size(); ++i) sum += runs_[i];
  return sum;
}

}  // namespace tessera::measure
