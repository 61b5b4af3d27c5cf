#include "tessera/machine/runtime/device/opencl_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <unordered_map>
#include <vector>

#include "tessera/machine/runtime/device/one_word.h"
#include "tessera/machine/runtime/device/opencl_driver.h"

namespace tessera::runtime {
namespace {

using opencl::Driver;
using opencl::Status;

template <class T>
T info_of(const Driver& d, opencl::DeviceId device, opencl::Info what) {
  T value = 0;
  return d.device_info(device, what, sizeof(value), &value, nullptr) == 0 ? value : T{0};
}

std::string text_of(const Driver& d, opencl::DeviceId device, opencl::Info what) {
  std::array<char, 256> text = {};
  d.device_info(device, what, text.size() - 1, text.data(), nullptr);
  return text.data();
}

// PoCL's optimizer breaks what threads keep across barriers where only some of them change it: the
// same text compiled by others, or by it without optimizations, is right.
std::string build_options(const Driver& d, opencl::DeviceId device) {
  std::string options = "-cl-std=CL1.2";
  const auto config = info_of<std::uint64_t>(d, device, opencl::kSingleConfig);
  if ((config & opencl::kRoundsDivisions) != 0)
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  const std::string version = text_of(d, device, opencl::kDeviceVersion);
  if (version.find("PoCL") != std::string::npos || version.find("pocl") != std::string::npos)
    options += " -cl-opt-disable";
  return options;
}

target::Target describe(const Driver& d, opencl::DeviceId device) {
  target::Target t = target::find_target("opencl-1.2").value();
  t.name = one_word(text_of(d, device, opencl::kDeviceName));
  t.cores =
      static_cast<int>(std::max(1u, info_of<std::uint32_t>(d, device, opencl::kComputeUnits)));
  t.l2_bytes = static_cast<std::int64_t>(
      std::max<std::uint64_t>(info_of<std::uint64_t>(d, device, opencl::kCacheBytes),
                              static_cast<std::uint64_t>(t.l1_bytes)));
  if (const auto line = info_of<std::uint32_t>(d, device, opencl::kLineBytes); line > 0)
    t.line_bytes = static_cast<int>(line);
  t.gpu.block_threads = static_cast<int>(
      std::min<std::size_t>(info_of<std::size_t>(d, device, opencl::kMaxGroupSize), 1024));
  t.gpu.block_shared_bytes = t.gpu.core_shared_bytes =
      static_cast<std::int64_t>(info_of<std::uint64_t>(d, device, opencl::kLocalBytes));
  t.gpu.clock_mhz = static_cast<int>(info_of<std::uint32_t>(d, device, opencl::kClockMhz));
  t.rates = target::shipped_rates(t);
  return t;
}

class OpenClCode final : public LoadedCode {
 public:
  OpenClCode(const Driver& driver, opencl::Program program) : driver_(driver), program_(program) {}
  ~OpenClCode() override {
    for (const opencl::Kernel k : kernels) driver_.release_kernel(k);
    for (const opencl::Memory m : temporaries) driver_.release_buffer(m);
    driver_.release_program(program_);
  }
  OpenClCode(const OpenClCode&) = delete;
  OpenClCode& operator=(const OpenClCode&) = delete;

  std::vector<LaunchInfo> launches;
  std::vector<opencl::Kernel> kernels;  // of each launch
  std::vector<std::int64_t> temporary_bytes;
  std::vector<opencl::Memory> temporaries;  // its own, made when a call brings none
  std::size_t parameters = 0;

 private:
  const Driver& driver_;
  opencl::Program program_;
};

class OpenClRecording final : public Recording {
 public:
  explicit OpenClRecording(std::vector<Call> c) : calls(std::move(c)) {}
  std::vector<Call> calls;
};

class OpenClDevice final : public Device {
 public:
  OpenClDevice(const Driver& driver, opencl::DeviceId device)
      : d_(driver),
        device_(device),
        target_(describe(driver, device)),
        memory_bytes_(info_of<std::uint64_t>(driver, device, opencl::kMemoryBytes)) {}

  ~OpenClDevice() override {
    if (queue_) d_.release_queue(queue_);
    if (context_) d_.release_context(context_);
  }

  Result<void> start() {
    Status status = 0;
    context_ = d_.create_context(nullptr, 1, &device_, nullptr, nullptr, &status);
    TESSERA_DO(d_.check("clCreateContext", status));
    queue_ = d_.create_queue(context_, device_, opencl::kProfiling, &status);
    return d_.check("clCreateCommandQueue", status);
  }

  const target::Target& target() const override { return target_; }

  Result<void*> allocate(std::size_t bytes) override {
    // Some drivers find out that memory is not there when it is first used.
    if (memory_bytes_ > 0 && bytes > memory_bytes_)
      return make_error(ErrorCode::kRunFailed, "no memory for {} bytes: the device has {}", bytes,
                        memory_bytes_);
    Status status = 0;
    opencl::Memory memory = d_.create_buffer(context_, opencl::kReadWrite,
                                             std::max<std::size_t>(bytes, 1), nullptr, &status);
    if (status == 0) return static_cast<void*>(memory);
    return make_error(ErrorCode::kRunFailed, "no memory for {} bytes: OpenCL error {}", bytes,
                      status);
  }

  void free(void* memory) override {
    // The last one first: NVIDIA's driver (580) crashes if one of two parts that overlap and were
    // used is released before the other, which was made after it.
    std::vector<opencl::Memory>& parts = parts_[memory];
    for (; !parts.empty(); parts.pop_back()) d_.release_buffer(parts.back());
    parts_.erase(memory);
    d_.release_buffer(static_cast<opencl::Memory>(memory));
  }

  Result<void*> part(void* memory, std::size_t offset, std::size_t bytes) override {
    const std::array<std::size_t, 2> region = {offset, std::max<std::size_t>(bytes, 1)};
    Status status = 0;
    opencl::Memory made = d_.create_part(static_cast<opencl::Memory>(memory), opencl::kReadWrite,
                                         opencl::kRegion, region.data(), &status);
    TESSERA_DO(d_.check("clCreateSubBuffer", status));
    parts_[memory].push_back(made);
    return static_cast<void*>(made);
  }

  Result<void> fill(void* memory, std::uint8_t value, std::size_t bytes) override {
    if (bytes == 0) return {};
    return d_.check("clEnqueueFillBuffer", d_.fill(queue_, static_cast<opencl::Memory>(memory),
                                                   &value, 1, 0, bytes, 0, nullptr, nullptr));
  }

  Result<void> upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    return d_.check("clEnqueueWriteBuffer", d_.write(queue_, static_cast<opencl::Memory>(to), 1, 0,
                                                     bytes, from, 0, nullptr, nullptr));
  }

  Result<void> download(void* to, void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    return d_.check("clEnqueueReadBuffer", d_.read(queue_, static_cast<opencl::Memory>(from), 1, 0,
                                                   bytes, to, 0, nullptr, nullptr));
  }

  Result<std::unique_ptr<LoadedCode>> load(const Binary& binary) override;

  Result<void> launch(LoadedCode& code, std::span<void* const> memory) override {
    return enqueue(static_cast<OpenClCode&>(code), memory, nullptr);
  }

  Result<void> synchronise() override { return d_.check("clFinish", d_.finish(queue_)); }

  Result<std::unique_ptr<Recording>> record(std::vector<Call> calls,
                                            const RecordingPlan& /*plan*/) override {
    return std::unique_ptr<Recording>(std::make_unique<OpenClRecording>(std::move(calls)));
  }

  Result<void> replay(Recording& recording) override {
    for (const Call& call : static_cast<OpenClRecording&>(recording).calls)
      TESSERA_DO(launch(*call.code, call.memory));
    return {};
  }

  Result<double> time_replays(Recording& recording, int replays) override;

 private:
  // Adds the events of its first and last kernel to `events`, where given.
  Result<void> enqueue(OpenClCode& code, std::span<void* const> given,
                       std::vector<opencl::Event>* events);
  std::string build_log(opencl::Program program) const;

  const Driver& d_;
  opencl::DeviceId device_;
  target::Target target_;
  std::uint64_t memory_bytes_;  // 0: it does not say
  opencl::Context context_ = nullptr;
  opencl::Queue queue_ = nullptr;
  std::unordered_map<void*, std::vector<opencl::Memory>> parts_;  // by what they are parts of
};

std::string OpenClDevice::build_log(opencl::Program program) const {
  std::size_t size = 0;
  d_.build_info(program, device_, opencl::kBuildLog, 0, nullptr, &size);
  std::string log(size, '\0');
  d_.build_info(program, device_, opencl::kBuildLog, size, log.data(), nullptr);
  log.resize(std::min(log.find('\0'), log.size()));
  return log;
}

Result<std::unique_ptr<LoadedCode>> OpenClDevice::load(const Binary& binary) {
  if (binary.kind != BinaryKind::kOpenClC) {
    return make_error(ErrorCode::kUnsupported, "code for target {} does not run on {}",
                      binary.target.name, target_.name);
  }
  const std::string text(binary.bytes.begin(), binary.bytes.end());
  const char* source = text.c_str();
  const std::size_t bytes = text.size();
  Status status = 0;
  opencl::Program program = d_.create_program(context_, 1, &source, &bytes, &status);
  TESSERA_DO(d_.check("clCreateProgramWithSource", status));
  auto code = std::make_unique<OpenClCode>(d_, program);
  const std::string options = build_options(d_, device_);
  status = d_.build_program(program, 1, &device_, options.c_str(), nullptr, nullptr);
  if (status != 0) {
    return make_error(ErrorCode::kBuildFailed, "OpenCL error {}\n{}", status, build_log(program));
  }
  code->launches = binary.launches;
  code->parameters = static_cast<std::size_t>(binary.parameters);
  code->temporary_bytes = binary.temporaries;
  for (const LaunchInfo& l : binary.launches) {
    opencl::Kernel kernel = d_.create_kernel(program, l.name.c_str(), &status);
    if (status != 0)
      return make_error(ErrorCode::kBuildFailed, "{}: OpenCL error {}", l.name, status);
    code->kernels.push_back(kernel);
  }
  return std::unique_ptr<LoadedCode>(std::move(code));
}

Result<void> OpenClDevice::enqueue(OpenClCode& code, std::span<void* const> given,
                                   std::vector<opencl::Event>* events) {
  std::vector<opencl::Memory> memory;
  for (void* m : given) memory.push_back(static_cast<opencl::Memory>(m));
  if (given.size() == code.parameters) {
    for (std::size_t i = code.temporaries.size(); i < code.temporary_bytes.size(); ++i) {
      TESSERA_TRY(void* made, allocate(static_cast<std::size_t>(code.temporary_bytes[i])));
      code.temporaries.push_back(static_cast<opencl::Memory>(made));
    }
    memory.insert(memory.end(), code.temporaries.begin(), code.temporaries.end());
  }
  for (std::size_t i = 0; i < code.launches.size(); ++i) {
    const LaunchInfo& l = code.launches[i];
    for (std::size_t a = 0; a < l.arguments.size(); ++a) {
      const opencl::Memory& m = memory[static_cast<std::size_t>(l.arguments[a])];
      TESSERA_DO(
          d_.check("clSetKernelArg", d_.set_argument(code.kernels[i], static_cast<std::uint32_t>(a),
                                                     sizeof(m), static_cast<const void*>(&m))));
    }
    std::array<std::size_t, 3> items = {}, group = {};
    for (std::size_t d = 0; d < 3; ++d) {
      group[d] = static_cast<std::size_t>(l.block[d]);
      items[d] = group[d] * static_cast<std::size_t>(l.grid[d]);
    }
    const bool outermost = i == 0 || i + 1 == code.launches.size();
    opencl::Event event = nullptr;
    TESSERA_DO(d_.check(l.name.c_str(),
                        d_.launch(queue_, code.kernels[i], 3, nullptr, items.data(), group.data(),
                                  0, nullptr, events && outermost ? &event : nullptr)));
    if (event) events->push_back(event);
  }
  return {};
}

Result<double> OpenClDevice::time_replays(Recording& recording, int replays) {
  std::vector<opencl::Event> events;
  Result<void> result;
  for (int i = 0; i < replays; ++i) {
    for (const Call& call : static_cast<OpenClRecording&>(recording).calls) {
      if (result.ok()) result = enqueue(static_cast<OpenClCode&>(*call.code), call.memory, &events);
    }
  }
  if (result.ok()) result = synchronise();
  std::uint64_t start = 0, end = 0;
  if (result.ok() && !events.empty()) {
    d_.event_time(events.front(), opencl::kCommandStart, sizeof(start), &start, nullptr);
    d_.event_time(events.back(), opencl::kCommandEnd, sizeof(end), &end, nullptr);
  }
  for (const opencl::Event e : events) d_.release_event(e);
  if (!result.ok()) return result.error();
  return 1e-9 * static_cast<double>(end - start);
}

std::vector<opencl::DeviceId> all_devices(const Driver& d, opencl::Flags type) {
  std::vector<opencl::DeviceId> out;
  std::uint32_t count = 0;
  if (d.platforms(0, nullptr, &count) != 0) return out;
  std::vector<opencl::Platform> platforms(count);
  if (count > 0) d.platforms(count, platforms.data(), nullptr);
  for (const opencl::Platform platform : platforms) {
    std::uint32_t found = 0;
    if (d.devices(platform, type, 0, nullptr, &found) != 0 || found == 0) continue;
    std::vector<opencl::DeviceId> devices(found);
    d.devices(platform, type, found, devices.data(), nullptr);
    out.insert(out.end(), devices.begin(), devices.end());
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Device>> open_opencl_device() {
  TESSERA_TRY(const Driver* d, opencl::driver());
  std::vector<opencl::DeviceId> devices = all_devices(*d, opencl::kGpuDevice);
  if (devices.empty()) devices = all_devices(*d, opencl::kAnyDevice);
  if (devices.empty())
    return make_error(ErrorCode::kUnavailable, "no OpenCL device: no platform has one");
  auto device = std::make_unique<OpenClDevice>(*d, devices.front());
  if (const Result<void> started = device->start(); !started.ok())
    return Error{ErrorCode::kUnavailable, started.error().message};
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tessera::runtime
