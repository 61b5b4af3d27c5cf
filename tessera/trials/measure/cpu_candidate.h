// One built candidate inside the run worker, ready to be called.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/machine/runtime/abi.h"
#include "tessera/machine/runtime/object_loader.h"
#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/options.h"
#include "tessera/trials/measure/run_stand.h"
#include "tessera/trials/measure/task_data.h"

namespace tessera::measure {

class CpuCandidate final : public LoadedCandidate {
 public:
  // `item`, `data` and `pool` must outlive it. Loads the code and stores the constants as it wants
  // them.
  static Result<std::unique_ptr<CpuCandidate>> load(const RunItem& item, const te::Dag& dag,
                                                    TaskData& data, runtime::ThreadPool& pool,
                                                    const WorkerHooks& hooks);

  void call();
  bool check(Measurement* m) override;
  // What the buffers show after further calls.
  bool recheck(Measurement* m) const;
  void touch_variables() const;  // reads the inputs that are not constants

 private:
  CpuCandidate(const RunItem& item, TaskData& data, runtime::ThreadPool& pool,
               const WorkerHooks& hooks)
      : item_(item), data_(data), pool_(pool), hooks_(hooks) {}

  const RunItem& item_;
  TaskData& data_;
  runtime::ThreadPool& pool_;
  const WorkerHooks& hooks_;
  std::unique_ptr<runtime::LoadedObject> object_;
  tsr_kernel entry_ = nullptr;
  std::vector<void*> params_;
  std::vector<std::span<const std::byte>> variables_;
  GuardedBuffer workspace_;
  std::function<void()> plain_call_;
};

}  // namespace tessera::measure
