// The right answer of a task, computed once for all run workers.
#pragma once

#include <vector>

#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/target/target.h"
#include "tessera/trials/measure/options.h"
#include "tessera/trials/measure/task_data.h"

namespace tessera::measure {

// The right outputs of a task in memory that all run workers share, so that the successor of a dead
// one need not compute them again.
class SharedReference {
 public:
  // Address space only; pages come with the first write. Empty when there is none to be had.
  explicit SharedReference(const te::Dag& dag);
  ~SharedReference();
  SharedReference(SharedReference&& other) noexcept;
  SharedReference& operator=(SharedReference&&) = delete;

  bool ready() const;
  // Somebody computes them: wait() is worth it. Until keep(), or release() where that failed.
  void claim() { set_state(kClaimed); }
  void release() { set_state(kNone); }
  bool wait(double seconds) const;  // ready() as soon as nobody computes them any more, or later
  // Keeps whole outputs; from now on this process cannot write them.
  void keep(const Expected& expected);
  // As kept; call only when ready().
  Expected expected() const;

 private:
  static constexpr std::uint32_t kNone = 0, kReady = 1, kClaimed = 2;
  std::uint32_t state() const;
  void set_state(std::uint32_t state);

  // Outputs, then what they were before they were rounded, where that is asked.
  std::vector<ir::Buffer> outputs_, before_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// The outputs by the loops as written, or, where those would take long, by `fast` if that is not
// empty; either is first compared with the interpreter, on sampled points if large.
Result<Expected> compute_reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                   const target::Target& target, runtime::ThreadPool& pool,
                                   const ScheduleOf& fast);

// Those of `shared`, computed and kept there first where they are not yet.
Result<Expected> shared_expected(SharedReference& shared, const te::Dag& dag,
                                 const std::vector<HostTensor>& inputs,
                                 const target::Target& target, runtime::ThreadPool& pool,
                                 const ScheduleOf& fast);

}  // namespace tessera::measure
