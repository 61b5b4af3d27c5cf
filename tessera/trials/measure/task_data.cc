#include "tessera/trials/measure/task_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/scheduling/lower/lower.h"

namespace tessera::measure {
namespace {

std::size_t bytes_of(const ir::Buffer& b) {
  return static_cast<std::size_t>(b.size()) * static_cast<std::size_t>(size_bytes(b->dtype));
}

constexpr std::int64_t kBlock = 512;

bool differs(double want, double got, double allowed) {
  if (std::abs(want - got) <= allowed || want == got) return false;  // equal: infinities
  return !(std::isnan(want) && std::isnan(got));
}

// Whether no element of a block differs; false also where only differs() can tell. Without a
// branch, so that compilers make vectors of it.
bool block_is_near(const float* want, const float* got, float allowed) {
  int far = 0;
  for (std::int64_t i = 0; i < kBlock; ++i)
    far |= static_cast<int>(!(std::abs(want[i] - got[i]) <= allowed));
  return far == 0;
}

// Calls bad(i, want, got) for every element that differs by more than `allowed`. `floats(i, n)` are
// n elements of what was computed.
template <class Floats, class Bad>
void scan(const float* want, std::int64_t n, double allowed, const Floats& floats, const Bad& bad) {
  // Below `allowed` by more than the rounding of a difference.
  const auto near = static_cast<float>(allowed * (1 - 1e-6));
  for (std::int64_t first = 0; first < n; first += kBlock) {
    const std::int64_t count = std::min(kBlock, n - first);
    const float* got = floats(first, count);
    if (count == kBlock && block_is_near(want + first, got, near)) continue;
    for (std::int64_t i = 0; i < count; ++i) {
      if (differs(want[first + i], got[i], allowed)) bad(first + i, want[first + i], got[i]);
    }
  }
}

// Of every f16: a conversion by itself takes a few branches.
const std::vector<float>& half_values() {
  static const std::vector<float> values = [] {
    std::vector<float> out(std::size_t{1} << 16);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = f16_to_f32(static_cast<std::uint16_t>(i));
    return out;
  }();
  return values;
}

bool is_narrow(DType t) { return t == DType::kF16 || t == DType::kBF16; }

void widen(DType from, const std::byte* bits, std::int64_t n, float* out) {
  const std::vector<float>& halves = half_values();
  for (std::int64_t i = 0; i < n; ++i) {
    std::uint16_t v = 0;
    std::memcpy(&v, bits + 2 * i, sizeof v);
    out[i] = from == DType::kF16 ? halves[v] : bf16_to_f32(v);
  }
}

// The elements of an output at `points`, as `like` is.
HostTensor gather(const std::byte* output, const std::vector<std::int64_t>& points,
                  const HostTensor& like) {
  HostTensor out(like.dtype(), like.shape());
  const auto size = static_cast<std::size_t>(size_bytes(like.dtype()));
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::memcpy(out.as<std::byte>() + i * size, output + static_cast<std::size_t>(points[i]) * size,
                size);
  }
  return out;
}

}  // namespace

OutputComparer::OutputComparer(const te::Dag& dag, std::size_t output, HostTensor want,
                               Products products, std::optional<HostTensor> before)
    : want_(std::move(want)), before_(std::move(before)) {
  const DType dtype = want_.dtype();
  const double relative = kernel::tolerance(dag, output, products);
  const std::int64_t n = want_.size();
  if (!is_float(dtype)) {
    for (std::int64_t i = 0; before_ && i < before_->size(); ++i) {
      const double v = std::abs(before_->get_float(i));
      if (std::isfinite(v)) allowed_ = std::max(allowed_, relative * v);
    }
    return;
  }
  if (is_narrow(dtype)) {
    floats_.resize(static_cast<std::size_t>(n));
    widen(dtype, want_.as<std::byte>(), n, floats_.data());
  }
  const float* floats = is_narrow(dtype)       ? floats_.data()
                        : dtype == DType::kF32 ? want_.as<float>()
                                               : nullptr;
  double scale = 0;
  std::int64_t numbers = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double v = std::abs(floats ? floats[i] : want_.get_float(i));
    if (std::isfinite(v)) scale = std::max(scale, v);
    numbers += std::isnan(v) ? 0 : 1;
  }
  unknown_ = n > 0 && numbers == 0;
  allowed_ = relative * scale;
}

std::string OutputComparer::compare(const std::byte* got) const {
  if (unknown_) return "NaN everywhere in the reference: nothing can be verified";
  const std::int64_t n = want_.size();
  std::int64_t count = 0, first = -1;
  double first_want = 0, first_got = 0;
  const auto bad = [&](std::int64_t i, double w, double g) {
    if (count++ > 0) return;
    first = i;
    first_want = w;
    first_got = g;
  };
  if (want_.dtype() == DType::kF32) {
    const auto* floats = reinterpret_cast<const float*>(got);
    scan(
        want_.as<float>(), n, allowed_,
        [&](std::int64_t from, std::int64_t) { return floats + from; }, bad);
  } else if (std::memcmp(want_.data(), got, want_.bytes()) == 0) {
    return "";
  } else if (is_narrow(want_.dtype())) {
    std::array<float, kBlock> block;
    const auto floats = [&](std::int64_t from, std::int64_t elements) {
      widen(want_.dtype(), got + 2 * from, elements, block.data());
      return block.data();
    };
    scan(floats_.data(), n, allowed_, floats, bad);
  } else {
    HostTensor copy(want_.dtype(), want_.shape());
    std::memcpy(copy.data(), got, copy.bytes());
    for (std::int64_t i = 0; i < n; ++i) {
      const double w = want_.get_float(i), g = copy.get_float(i);
      if (is_float(want_.dtype()) ? !differs(w, g, allowed_) : w == g) continue;
      const bool other_side =
          before_ && kernel::over_border(w, g, before_->get_float(i), allowed_) <= 1;
      if (!other_side) bad(i, w, g);
    }
  }
  if (count == 0) return "";
  return fmt::format("{} of {} elements differ, the first at {}: {:.6g}, not {:.6g}", count, n,
                     first, first_got, first_want);
}

std::string compare_output(const te::Dag& dag, std::size_t output, const HostTensor& want,
                           const std::byte* got, Products products,
                           const std::optional<HostTensor>& before) {
  return OutputComparer(dag, output, want, products, before).compare(got);
}

Result<std::unique_ptr<TaskData>> TaskData::make(const te::Dag& dag, std::uint64_t seed,
                                                 const ExpectedOf& expected) {
  std::unique_ptr<TaskData> data(new TaskData(dag));
  data->inputs_ = kernel::random_inputs(dag, seed);
  TESSERA_TRY(data->wanted_, expected(data->inputs_));
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

std::vector<OutputComparer> comparers(const te::Dag& dag, const Expected& wanted,
                                      Products products) {
  std::vector<OutputComparer> out;
  for (std::size_t o = 0; o < wanted.outputs.size(); ++o)
    out.emplace_back(dag, o, wanted.outputs[o], products,
                     o < wanted.before.size() ? wanted.before[o] : std::nullopt);
  return out;
}

std::string compare_outputs(const te::Dag& dag, const Expected& wanted,
                            const std::vector<OutputComparer>& by,
                            const std::vector<const std::byte*>& outputs) {
  for (std::size_t o = 0; o < wanted.outputs.size(); ++o) {
    const bool whole = o >= wanted.points.size() || wanted.points[o].empty();
    const HostTensor got =
        whole ? HostTensor() : gather(outputs[o], wanted.points[o], wanted.outputs[o]);
    const std::string what = by[o].compare(whole ? outputs[o] : got.as<std::byte>());
    if (!what.empty()) return fmt::format("output {}: {}", dag.outputs[o]->name, what);
  }
  return "";
}

std::string compare_outputs(const te::Dag& dag, const Expected& wanted,
                            const std::vector<const std::byte*>& outputs, Products products) {
  return compare_outputs(dag, wanted, comparers(dag, wanted, products), outputs);
}

std::string TaskData::wrong_output() const {
  std::vector<const std::byte*> got;
  for (const GuardedBuffer& b : outputs_) got.push_back(b.data());
  return compare_outputs(dag_, wanted_, got);
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
