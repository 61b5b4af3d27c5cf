// Inputs, buffers and the right answer of one task, inside the run worker.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/measure/guarded_buffer.h"
#include "tessera/runtime/thread_pool.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/target/target.h"
#include "tessera/te/dag.h"

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
  // Keeps the outputs; from now on this process cannot write them.
  void keep(const std::vector<HostTensor>& outputs);
  // As kept; call only when ready().
  std::vector<HostTensor> outputs(const te::Dag& dag) const;

 private:
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

// The outputs by the loops as written, or, where those would take long, by the schedule that
// reasoning gives; either is first compared with the interpreter, on sampled points if large.
Result<std::vector<HostTensor>> compute_reference(const te::Dag& dag,
                                                  const std::vector<HostTensor>& inputs,
                                                  const target::Target& target,
                                                  runtime::ThreadPool& pool);

// Empty when `got` is `want` but for rounding. Floats: within kernel::tolerance, amplified (kernels
// may add in any order and through transforms), of the largest magnitude. Integers and booleans are
// exact, except where floats decide them: then one in 200 may differ.
std::string compare_output(const te::Dag& dag, const HostTensor& want, const std::byte* got);

class TaskData {
 public:
  static Result<std::unique_ptr<TaskData>> make(const te::Dag& dag, const target::Target& target,
                                                runtime::ThreadPool& pool, std::uint64_t seed,
                                                SharedReference* reference);

  // Input `index` stored as `layout` (text; empty: as it is), protected against writing. Kept for
  // the next candidate; forget() drops what exceeds the memory given to it.
  Result<std::byte*> input(std::size_t index, const std::string& layout);
  void forget(std::size_t most_bytes);
  std::size_t bytes() const;

  // All bits set: a value that no kernel leaves by accident.
  void clear_outputs();
  std::vector<std::byte*> outputs() const;
  // Empty, or which output is wrong and how.
  std::string wrong_output() const;
  // Empty, or around which output what was written.
  std::string damage() const;
  void repair();

 private:
  explicit TaskData(const te::Dag& dag) : dag_(dag) {}

  const te::Dag& dag_;
  std::vector<HostTensor> inputs_;
  std::map<std::pair<std::size_t, std::string>, GuardedBuffer> stored_;
  std::vector<GuardedBuffer> outputs_;
  std::vector<HostTensor> wanted_;  // empty: not checked
};

}  // namespace tessera::measure
