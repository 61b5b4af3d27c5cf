#include "tessera/trials/measure/device_task.h"

#include <algorithm>
#include <cstring>

#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/scheduling/lower/lower.h"

namespace tessera::measure {
namespace {

constexpr std::size_t kZone = 64 << 10;  // a few rows of most tensors
constexpr std::uint8_t kZoneByte = 0xa5;

// Empty when all bytes are those of a zone.
std::string damage_of(const std::byte* zone, std::size_t bytes, bool before) {
  // All are as the first one.
  if (zone[0] == std::byte{kZoneByte} && std::memcmp(zone, zone + 1, bytes - 1) == 0) return "";
  std::size_t count = 0, first = bytes, last = 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    if (zone[i] == std::byte{kZoneByte}) continue;
    ++count;
    first = std::min(first, i);
    last = i;
  }
  return before ? fmt::format("{} bytes changed, the last {} before the beginning", count,
                              bytes - last)
                : fmt::format("{} bytes changed, the first {} beyond the end", count, first);
}

}  // namespace

Result<std::unique_ptr<DeviceTask>> DeviceTask::make(const te::Dag& dag, runtime::Device& device,
                                                     Products products, std::uint64_t seed,
                                                     const TaskData::ExpectedOf& expected) {
  std::unique_ptr<DeviceTask> task(new DeviceTask(dag, device));
  task->inputs_ = kernel::random_inputs(dag, seed);
  TESSERA_TRY(task->wanted_, expected(task->inputs_));
  task->compared_ = comparers(dag, task->wanted_, products);
  for (const ir::Buffer& b : dag.outputs) {
    TESSERA_TRY(Output output, task->make_output(b));
    task->outputs_.push_back(std::move(output));
  }
  return task;
}

Result<DeviceTask::Output> DeviceTask::make_output(const ir::Buffer& buffer) const {
  Output out;
  out.bytes = static_cast<std::size_t>(buffer.size() * size_bytes(buffer->dtype));
  const std::size_t all = 2 * kZone + out.bytes;
  TESSERA_TRY(out.whole, runtime::DeviceBuffer::make(device_, all));
  TESSERA_TRY(out.data, device_.part(out.whole.get(), kZone, all - kZone));
  out.host.resize(all);
  TESSERA_DO(device_.fill(out.whole.get(), kZoneByte, all));
  return out;
}

Result<void*> DeviceTask::input(std::size_t index, const std::string& layout) {
  const auto found = stored_.find({index, layout});
  if (found != stored_.end()) return found->second.get();
  HostTensor tensor = inputs_[index];
  if (!layout.empty()) {
    TESSERA_TRY(const schedule::Layout parsed, schedule::layout_from_text(layout));
    TESSERA_DO(schedule::check_layout(parsed, tensor.shape().size()));
    tensor = lower::pack(tensor, parsed);
  }
  TESSERA_TRY(runtime::DeviceBuffer buffer, runtime::DeviceBuffer::make(device_, tensor.bytes()));
  TESSERA_DO(device_.upload(buffer.get(), tensor.data(), tensor.bytes()));
  void* at = buffer.get();
  stored_.emplace(std::pair(index, layout), std::move(buffer));
  return at;
}

void DeviceTask::forget(std::size_t most_bytes) {
  if (bytes() > most_bytes) stored_.clear();
}

std::size_t DeviceTask::bytes() const {
  std::size_t sum = 0;
  for (const HostTensor& t : inputs_) sum += t.bytes();
  for (const auto& [key, buffer] : stored_) sum += buffer.bytes();
  for (const Output& o : outputs_) sum += o.whole.bytes() + o.host.size();
  return sum;
}

Result<void> DeviceTask::clear_outputs() {
  for (Output& o : outputs_) TESSERA_DO(device_.fill(o.data, 0xff, o.bytes));
  return {};
}

std::vector<void*> DeviceTask::outputs() const {
  std::vector<void*> out;
  for (const Output& o : outputs_) out.push_back(o.data);
  return out;
}

Result<std::string> DeviceTask::fetch(Output& o) {
  TESSERA_DO(device_.download(o.host.data(), o.whole.get(), o.host.size()));
  std::string damage = damage_of(o.host.data(), kZone, true);
  if (damage.empty()) damage = damage_of(o.host.data() + kZone + o.bytes, kZone, false);
  if (!damage.empty()) TESSERA_DO(device_.fill(o.whole.get(), kZoneByte, o.host.size()));
  return damage;
}

Result<DeviceTask::Finding> DeviceTask::inspect() {
  std::vector<const std::byte*> got;
  for (std::size_t o = 0; o < outputs_.size(); ++o) {
    TESSERA_TRY(const std::string damage, fetch(outputs_[o]));
    if (!damage.empty()) {
      return Finding{Outcome::kOutOfBounds,
                     fmt::format("output {}: {}", dag_.outputs[o]->name, damage)};
    }
    got.push_back(outputs_[o].host.data() + kZone);
  }
  const std::string wrong = compare_outputs(dag_, wanted_, compared_, got);
  return wrong.empty() ? Finding{} : Finding{Outcome::kWrongResult, wrong};
}

}  // namespace tessera::measure
