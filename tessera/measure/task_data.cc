#include "tessera/measure/task_data.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "tessera/kernel/check_output.h"
#include "tessera/kernel/compile_op.h"
#include "tessera/lower/lower.h"
#include "tessera/space/default_schedule.h"

namespace tessera::measure {
namespace {

// The loops as written run at about a billion operations a second.
constexpr double kPlainFlops = 3e8;
constexpr std::int64_t kSampledPoints = 128;
// A schedule may sum in blocks, in another order, and through Winograd's transforms; an error of
// the schedule itself is larger by orders of magnitude. Half precision has no room for it.
constexpr double kAmplification = 16;

double allowed_error(const te::Dag& dag, DType dtype) {
  const bool wide = dtype == DType::kF32 || dtype == DType::kF64;
  return kernel::tolerance(dag, dtype, wide ? kAmplification : 1);
}

bool uses_floats(const te::Dag& dag) {
  for (const te::Op& op : dag.ops) {
    for (const ir::Buffer& b : op.outputs) {
      if (is_float(b->dtype)) return true;
    }
  }
  return std::ranges::any_of(dag.inputs,
                             [](const te::Input& in) { return is_float(in.buffer->dtype); });
}

std::size_t bytes_of(const ir::Buffer& b) {
  return static_cast<std::size_t>(b.size()) * static_cast<std::size_t>(size_bytes(b->dtype));
}

// Calls bad(i, want, got) for every element that differs by more than `allowed`.
template <class T, class Bad>
void scan(const T* want, const T* got, std::int64_t n, double allowed, Bad bad) {
  for (std::int64_t i = 0; i < n; ++i) {
    const double w = static_cast<double>(want[i]), g = static_cast<double>(got[i]);
    const double difference = std::abs(w - g);
    if (difference <= allowed || w == g) continue;  // w == g: infinities
    if (std::isnan(w) && std::isnan(g)) continue;
    bad(i, w, g);
  }
}

Result<std::vector<HostTensor>> run_once(const te::Dag& dag, const std::vector<HostTensor>& inputs,
                                         const std::string& schedule, const target::Target& target,
                                         runtime::ThreadPool& pool) {
  TESSERA_TRY(const kernel::CompiledOp op, kernel::compile_op(dag, schedule, target));
  kernel::OpRunner runner(op, pool);
  for (std::size_t i = 0; i < inputs.size(); ++i) TESSERA_DO(runner.set_input(i, inputs[i]));
  runner.run();
  std::vector<HostTensor> outputs;
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) outputs.push_back(runner.output(o));
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (outputs[o].size() == 0) continue;
    TESSERA_TRY(const kernel::Reference points,
                kernel::reference(dag, inputs, o, kSampledPoints, /*seed=*/1));
    const double allowed = allowed_error(dag, outputs[o].dtype());
    const double worst = kernel::worst_error(points, outputs[o], std::max(allowed, 1e-30));
    if (worst > 1 && (is_float(outputs[o].dtype()) || !uses_floats(dag))) {
      return make_error(ErrorCode::kRunFailed, "output {} differs from the interpreter's",
                        dag.outputs[o]->name);
    }
  }
  return outputs;
}

}  // namespace

SharedReference::SharedReference(const te::Dag& dag) {
  bytes_ = 64;
  for (const ir::Buffer& b : dag.outputs) bytes_ += (bytes_of(b) + 63) / 64 * 64;
  void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  memory_ = p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

SharedReference::~SharedReference() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

SharedReference::SharedReference(SharedReference&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

bool SharedReference::ready() const {
  if (memory_ == nullptr) return false;
  std::uint32_t flag = 0;
  std::memcpy(&flag, memory_, sizeof(flag));
  return flag == 1;
}

void SharedReference::keep(const std::vector<HostTensor>& outputs) {
  if (memory_ == nullptr) return;
  std::byte* at = memory_ + 64;
  for (const HostTensor& t : outputs) {
    std::memcpy(at, t.data(), t.bytes());
    at += (t.bytes() + 63) / 64 * 64;
  }
  // Only one run worker lives at a time: the flag need only come last in its own order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const std::uint32_t flag = 1;
  std::memcpy(memory_, &flag, sizeof(flag));
  mprotect(memory_, bytes_, PROT_READ);
}

std::vector<HostTensor> SharedReference::outputs(const te::Dag& dag) const {
  mprotect(memory_, bytes_, PROT_READ);
  std::vector<HostTensor> out;
  const std::byte* at = memory_ + 64;
  for (const ir::Buffer& b : dag.outputs) {
    out.emplace_back(b->dtype, b->shape);
    std::memcpy(out.back().data(), at, out.back().bytes());
    at += (out.back().bytes() + 63) / 64 * 64;
  }
  return out;
}

Result<std::vector<HostTensor>> compute_reference(const te::Dag& dag,
                                                  const std::vector<HostTensor>& inputs,
                                                  const target::Target& target,
                                                  runtime::ThreadPool& pool) {
  const bool small = te::flop_count(dag) <= kPlainFlops;
  if (!small) {
    const Result<schedule::Schedule> reasoned = space::default_schedule(dag, target);
    if (reasoned.ok()) {
      auto outputs = run_once(dag, inputs, schedule::to_text(*reasoned), target, pool);
      if (outputs.ok()) return outputs;
    }
  }
  return run_once(dag, inputs, "", target, pool);
}

std::string compare_output(const te::Dag& dag, const HostTensor& want, const std::byte* got) {
  const std::int64_t n = want.size();
  std::int64_t count = 0, first = -1;
  double first_want = 0, first_got = 0, allowed = 0;
  const auto bad = [&](std::int64_t i, double w, double g) {
    if (count++ > 0) return;
    first = i;
    first_want = w;
    first_got = g;
  };
  if (is_float(want.dtype())) {
    double scale = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = std::abs(want.get_float(i));
      if (std::isfinite(v)) scale = std::max(scale, v);
    }
    allowed = allowed_error(dag, want.dtype()) * scale;
  }
  if (want.dtype() == DType::kF32) {
    scan(want.as<float>(), reinterpret_cast<const float*>(got), n, allowed, bad);
  } else if (std::memcmp(want.data(), got, want.bytes()) != 0) {
    HostTensor copy(want.dtype(), want.shape());
    std::memcpy(copy.data(), got, copy.bytes());
    for (std::int64_t i = 0; i < n; ++i) {
      const double w = want.get_float(i), g = copy.get_float(i);
      scan(&w, &g, 1, allowed, [&](std::int64_t, double a, double b) { bad(i, a, b); });
    }
  }
  const bool undecided = !is_float(want.dtype()) && uses_floats(dag);
  if (count <= (undecided ? n / 200 : 0)) return "";
  return fmt::format("{} of {} elements differ, the first at {}: {:.6g}, not {:.6g}", count, n,
                     first, first_got, first_want);
}

Result<std::unique_ptr<TaskData>> TaskData::make(const te::Dag& dag, const target::Target& target,
                                                 runtime::ThreadPool& pool, std::uint64_t seed,
                                                 SharedReference* reference) {
  std::unique_ptr<TaskData> data(new TaskData(dag));
  data->inputs_ = kernel::random_inputs(dag, seed);
  if (reference != nullptr) {
    if (reference->ready()) {
      data->wanted_ = reference->outputs(dag);
    } else {
      TESSERA_TRY(data->wanted_, compute_reference(dag, data->inputs_, target, pool));
      reference->keep(data->wanted_);
    }
  }
  for (const ir::Buffer& b : dag.outputs) {
    TESSERA_TRY(GuardedBuffer buffer, GuardedBuffer::make(bytes_of(b)));
    data->outputs_.push_back(std::move(buffer));
  }
  return data;
}

Result<std::byte*> TaskData::input(std::size_t index, const std::string& layout) {
  const auto found = stored_.find({index, layout});
  if (found != stored_.end()) return found->second.data();
  HostTensor tensor = inputs_[index];
  if (!layout.empty()) {
    TESSERA_TRY(const schedule::Layout parsed, schedule::layout_from_text(layout));
    TESSERA_DO(schedule::check_layout(parsed, tensor.shape().size()));
    tensor = lower::pack(tensor, parsed);
  }
  TESSERA_TRY(GuardedBuffer buffer, GuardedBuffer::make(tensor.bytes()));
  if (tensor.bytes() > 0) std::memcpy(buffer.data(), tensor.data(), tensor.bytes());
  buffer.protect();
  std::byte* at = buffer.data();
  stored_.emplace(std::pair(index, layout), std::move(buffer));
  return at;
}

std::size_t TaskData::bytes() const {
  std::size_t sum = 0;
  for (const HostTensor& t : inputs_) sum += t.bytes();
  for (const auto& [key, buffer] : stored_) sum += buffer.bytes();
  for (const GuardedBuffer& b : outputs_) sum += 2 * b.bytes();
  return sum;
}

void TaskData::forget(std::size_t most_bytes) {
  // Buffers are also limited in number: watch_guards knows only so many.
  if (bytes() > most_bytes || stored_.size() > 64) stored_.clear();
}

void TaskData::clear_outputs() {
  for (GuardedBuffer& b : outputs_) std::memset(b.data(), 0xff, b.bytes());
}

std::vector<std::byte*> TaskData::outputs() const {
  std::vector<std::byte*> out;
  for (const GuardedBuffer& b : outputs_) out.push_back(b.data());
  return out;
}

std::string TaskData::wrong_output() const {
  for (std::size_t o = 0; o < wanted_.size(); ++o) {
    const std::string what = compare_output(dag_, wanted_[o], outputs_[o].data());
    if (!what.empty()) return fmt::format("output {}: {}", dag_.outputs[o]->name, what);
  }
  return "";
}

std::string TaskData::damage() const {
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    const std::string what = outputs_[o].damage();
    if (!what.empty()) return fmt::format("output {}: {}", dag_.outputs[o]->name, what);
  }
  return "";
}

void TaskData::repair() {
  for (GuardedBuffer& b : outputs_) b.repair();
}

}  // namespace tessera::measure
