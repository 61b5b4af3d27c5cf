// Inputs, guarded outputs and the right answer of one task in the memory of a device.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/machine/runtime/device/device.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/measure/task_data.h"

namespace tessera::measure {

class DeviceTask {
 public:
  // `expected` is asked once, with the inputs of `seed`. `device` must outlive it. `products`: how
  // candidates may compute them.
  static Result<std::unique_ptr<DeviceTask>> make(const te::Dag& dag, runtime::Device& device,
                                                  Products products, std::uint64_t seed,
                                                  const TaskData::ExpectedOf& expected);

  // Input `index` stored as `layout` (text; empty: as it is). Uploaded once and kept for the next
  // candidate; forget() drops what exceeds the memory given to it.
  Result<void*> input(std::size_t index, const std::string& layout);
  void forget(std::size_t most_bytes);
  std::size_t bytes() const;

  // All bits set: a value that no kernel leaves by accident.
  Result<void> clear_outputs();
  std::vector<void*> outputs() const;
  // What the outputs and the zones around them show; its outcome is kOk when all is well.
  struct Finding {
    Outcome outcome = Outcome::kOk;
    std::string reason;
  };
  Result<Finding> inspect();

 private:
  // [zone][data][zone], of known bytes.
  struct Output {
    runtime::DeviceBuffer whole;
    void* data = nullptr;   // of `whole`, up to its end
    std::size_t bytes = 0;  // without the zones
    std::vector<std::byte> host;
  };

  DeviceTask(const te::Dag& dag, runtime::Device& device) : dag_(dag), device_(device) {}
  Result<Output> make_output(const ir::Buffer& buffer) const;
  // Brings an output here; empty, or what was written around it.
  Result<std::string> fetch(Output& output);

  const te::Dag& dag_;
  runtime::Device& device_;
  std::vector<HostTensor> inputs_;
  std::map<std::pair<std::size_t, std::string>, runtime::DeviceBuffer> stored_;
  std::vector<Output> outputs_;
  Expected wanted_;
  std::vector<OutputComparer> compared_;  // with them
};

}  // namespace tessera::measure
