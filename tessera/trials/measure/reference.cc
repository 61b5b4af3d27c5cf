#include "tessera/trials/measure/reference.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include <sys/mman.h>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/te/before_rounding.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/support/clock.h"

namespace tessera::measure {
namespace {

// The loops as written run at about a billion operations per second.
constexpr double kPlainFlops = 3e8;
constexpr std::int64_t kSampledPoints = 128;
constexpr double kWaitSeconds = 60;  // for who computes them; then this process does

std::size_t bytes_of(const ir::Buffer& b) {
  return static_cast<std::size_t>(b.size()) * static_cast<std::size_t>(size_bytes(b->dtype));
}

Result<std::vector<HostTensor>> run_once(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                         const std::string& schedule, const target::Target& target,
                                         runtime::ThreadPool& pool) {
  TESSERA_TRY(const kernel::CompiledOp op, kernel::compile_op(dag, schedule, target));
  runtime::CpuDevice device(pool);
  kernel::OpRunner runner(op, device);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  TESSERA_DO(runner.run());
  std::vector<HostTensor> outputs;
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    TESSERA_TRY(HostTensor output, runner.output(o));
    outputs.push_back(std::move(output));
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].size() == 0) continue;
    TESSERA_TRY(const kernel::Reference points,
                kernel::reference(dag, inputs, o, kSampledPoints, /*seed=*/1));
    if (kernel::is_all_nan(points)) {
      return make_error(ErrorCode::kRunFailed,
                        "output {} is NaN everywhere: nothing can be verified",
                        dag.outputs[o]->name);
    }
    const double worst = kernel::worst_error(points, outputs[o], kernel::tolerance(dag, o));
    if (worst > 1) {
      return make_error(ErrorCode::kRunFailed, "output {} differs from the interpreter's",
                        dag.outputs[o]->name);
    }
  }
  return outputs;
}

Result<std::vector<HostTensor>> outputs_of(const te::Dag& dag,
                                           const std::vector<HostTensor>& inputs,
                                           const target::Target& target, runtime::ThreadPool& pool,
                                           const ScheduleOf& fast) {
  const bool small = te::flop_count(dag) <= kPlainFlops;
  if (!small && fast) {
    const Result<schedule::Schedule> steps = fast(dag, target);
    if (steps.ok()) {
      auto outputs = run_once(dag, inputs, schedule::to_text(*steps), target, pool);
      if (outputs.ok()) return outputs;
    }
  }
  return run_once(dag, inputs, "", target, pool);
}

std::size_t stored_bytes(const ir::Buffer& b) { return (bytes_of(b) + 63) / 64 * 64; }

HostTensor stored(const ir::Buffer& b, const std::byte*& at) {
  HostTensor out(b->dtype, b->shape);
  std::memcpy(out.data(), at, out.bytes());
  at += stored_bytes(b);
  return out;
}

}  // namespace

SharedReference::SharedReference(const te::Dag& dag) : outputs_(dag.outputs) {
  bytes_ = 64;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const std::optional<te::Dag> before = te::before_rounding(dag, o);
    before_.push_back(before ? before->outputs[0] : ir::Buffer());
    bytes_ += stored_bytes(outputs_[o]) + (before ? stored_bytes(before_[o]) : 0);
  }
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

SharedReference::~SharedReference() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

SharedReference::SharedReference(SharedReference&& other) noexcept
    : outputs_(std::move(other.outputs_)),
      before_(std::move(other.before_)),
      memory_(std::exchange(other.memory_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

std::uint32_t SharedReference::state() const {
  if (memory_ == nullptr) return kNone;
  return std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_)).load();
}

void SharedReference::set_state(std::uint32_t state) {
  if (memory_ != nullptr) std::atomic_ref(*reinterpret_cast<std::uint32_t*>(memory_)).store(state);
}

bool SharedReference::ready() const { return state() == kReady; }

bool SharedReference::wait(double seconds) const {
  const auto end = seconds_from_now(seconds);
  while (state() == kClaimed && Clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return ready();
}

void SharedReference::keep(const Expected& expected) {
  if (memory_ == nullptr) return;
  std::byte* at = memory_ + 64;
  const auto store = [&at](const HostTensor& t) {
    std::memcpy(at, t.data(), t.bytes());
    at += (t.bytes() + 63) / 64 * 64;
  };
  for (const HostTensor& t : expected.outputs) store(t);
  for (const std::optional<HostTensor>& t : expected.before) {
    if (t) store(*t);
  }
  set_state(kReady);
  mprotect(memory_, bytes_, PROT_READ);
}

Expected SharedReference::expected() const {
  mprotect(memory_, bytes_, PROT_READ);
  Expected out;
  const std::byte* at = memory_ + 64;
  for (const ir::Buffer& b : outputs_) out.outputs.push_back(stored(b, at));
  for (const ir::Buffer& b : before_)
    out.before.push_back(b ? std::optional(stored(b, at)) : std::nullopt);
  return out;
}

Result<Expected> compute_reference(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                   const target::Target& target, runtime::ThreadPool& pool,
                                   const ScheduleOf& fast) {
  Expected out;
  TESSERA_TRY(out.outputs, outputs_of(dag, inputs, target, pool, fast));
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    std::optional<HostTensor>& before = out.before.emplace_back();
    if (const std::optional<te::Dag> asked = te::before_rounding(dag, o)) {
      TESSERA_TRY(std::vector<HostTensor> values, outputs_of(*asked, inputs, target, pool, fast));
      before = std::move(values[0]);
    }
  }
  return out;
}

Result<Expected> shared_expected(SharedReference& shared, const te::Dag& dag,
                                 const std::vector<HostTensor>& inputs,
                                 const target::Target& target, runtime::ThreadPool& pool,
                                 const ScheduleOf& fast) {
  if (shared.wait(kWaitSeconds)) return shared.expected();
  TESSERA_TRY(Expected expected, compute_reference(dag, inputs, target, pool, fast));
  shared.keep(expected);
  return expected;
}

}  // namespace tessera::measure
