// Inputs, buffers and the right answer of one task, inside the run worker.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/support/host_tensor.h"
#include "tessera/support/result.h"
#include "tessera/support/tolerance.h"
#include "tessera/trials/measure/guarded_buffer.h"

namespace tessera::measure {

// The right outputs of a task: all of their elements, or some.
struct Expected {
  std::vector<HostTensor> outputs;  // none: not known, nothing is compared
  // Per output: what integers were before they were rounded (te/before_rounding.h), in the places
  // of outputs[o]; none: they are exact.
  std::vector<std::optional<HostTensor>> before;
  // Per output, the elements that outputs[o] lists, in row-major order; empty: outputs[o] is whole.
  std::vector<std::vector<std::int64_t>> points;
};

// Empty when `got` is `want` of output `output`, or some of its elements, but for rounding. Floats:
// within kernel::tolerance. Integers and booleans are exact; where `before` has what they were
// before they were rounded, each may be the next integer instead if that lies within
// kernel::tolerance of the border between the two.
std::string compare_output(const te::Dag& dag, std::size_t output, const HostTensor& want,
                           const std::byte* got, Products products = Products::kExact,
                           const std::optional<HostTensor>& before = {});

// compare_output() for many candidates: what depends on `want` alone is computed once.
class OutputComparer {
 public:
  OutputComparer(const te::Dag& dag, std::size_t output, HostTensor want,
                 Products products = Products::kExact, std::optional<HostTensor> before = {});
  std::string compare(const std::byte* got) const;

 private:
  HostTensor want_;
  std::optional<HostTensor> before_;
  std::vector<float> floats_;  // `want_` where it is f16 or bf16
  double allowed_ = 0;         // of floats, or of integers before they were rounded
  bool unknown_ = false;       // no number in `want_`
};

// The same of all outputs.
std::string compare_outputs(const te::Dag& dag, const Expected& wanted,
                            const std::vector<const std::byte*>& outputs,
                            Products products = Products::kExact);
// The same for many candidates: `by` is comparers() of what is wanted.
std::vector<OutputComparer> comparers(const te::Dag& dag, const Expected& wanted,
                                      Products products);
std::string compare_outputs(const te::Dag& dag, const Expected& wanted,
                            const std::vector<OutputComparer>& by,
                            const std::vector<const std::byte*>& outputs);

class TaskData {
 public:
  // `expected` is asked once, with the inputs of `seed`.
  using ExpectedOf = std::function<Result<Expected>(const std::vector<HostTensor>& inputs)>;
  static Result<std::unique_ptr<TaskData>> make(const te::Dag& dag, std::uint64_t seed,
                                                const ExpectedOf& expected);

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
  Expected wanted_;
};

}  // namespace tessera::measure
