// One run worker, fed one candidate after the other by a process of one thread.
#pragma once

#include <vector>

#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/options.h"
#include "tessera/trials/measure/run_worker.h"

namespace tessera::measure {

class RunProcess {
 public:
  // The arguments must outlive it. The worker is forked with its first work, and again after a
  // candidate took it along; call run() from one thread, with no other started.
  RunProcess(const std::vector<te::Dag>& tasks, const target::Target& target,
             const MeasureOptions& options, ExpectedOfTask expected);
  ~RunProcess();
  RunProcess(const RunProcess&) = delete;
  RunProcess& operator=(const RunProcess&) = delete;

  // Whatever happens to the worker, a measurement; kWorkerLost where the candidate is not to blame.
  Measurement run(const RunItem& item);

 private:
  // Waits for the reply; false with the reason in *m when the worker is gone.
  bool receive(const RunItem& item, Measurement* m);
  void bury();

  const std::vector<te::Dag>& tasks_;
  const target::Target& target_;
  const MeasureOptions& options_;
  ExpectedOfTask expected_;
  std::uint32_t current_ = 0;
  pid_t pid_ = 0;  // 0: none
  Channel channel_;
};

}  // namespace tessera::measure
