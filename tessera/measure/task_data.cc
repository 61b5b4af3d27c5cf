#include "tessera/measure/task_data.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/kernel/random_inputs.h"
#include "tessera/lower/lower.h"
#include "tessera/te/roundings.h"

namespace tessera::measure {
namespace {

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

std::string compare_output(const te::Dag& dag, std::size_t output, const HostTensor& want,
                           const std::byte* got, Products products) {
  const std::int64_t n = want.size();
  const Roundings rounded = te::roundings(dag, output, products);
  const double relative = tolerance(rounded);
  double allowed = 0;
  if (is_float(want.dtype())) {
    double scale = 0;
    std::int64_t numbers = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      const double v = std::abs(want.get_float(i));
      if (std::isfinite(v)) scale = std::max(scale, v);
      numbers += std::isnan(v) ? 0 : 1;
    }
    if (n > 0 && numbers == 0) return "NaN everywhere in the reference: nothing can be verified";
    allowed = relative * scale;
  }
  const bool quantised = rounded.count(want.dtype()) > 0 && !is_float(want.dtype());
  const double steps = relative * std::exp2(8 * size_bytes(want.dtype()));
  std::int64_t count = 0, far = 0, first = -1;
  double first_want = 0, first_got = 0;
  const auto bad = [&](std::int64_t i, double w, double g) {
    if (quantised && std::abs(w - g) > std::max(1.0, steps)) ++far;
    if (count++ > 0) return;
    first = i;
    first_want = w;
    first_got = g;
  };
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
  const bool undecided = !is_float(want.dtype()) && rounded.any();
  if (far == 0 && count <= (undecided ? n / 200 : 0)) return "";
  return fmt::format("{} of {} elements differ, the first at {}: {:.6g}, not {:.6g}", count, n,
                     first, first_got, first_want);
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

std::string compare_outputs(const te::Dag& dag, const Expected& wanted,
                            const std::vector<const std::byte*>& outputs, Products products) {
  for (std::size_t o = 0; o < wanted.outputs.size(); ++o) {
    const HostTensor& want = wanted.outputs[o];
    const bool whole = o >= wanted.points.size() || wanted.points[o].empty();
    const HostTensor got = whole ? HostTensor() : gather(outputs[o], wanted.points[o], want);
    const std::string what =
        compare_output(dag, o, want, whole ? outputs[o] : got.as<std::byte>(), products);
    if (!what.empty()) return fmt::format("output {}: {}", dag.outputs[o]->name, what);
  }
  return "";
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
