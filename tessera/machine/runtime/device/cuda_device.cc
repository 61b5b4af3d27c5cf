#include "tessera/machine/runtime/device/cuda_device.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tessera/machine/runtime/device/cuda_driver.h"
#include "tessera/machine/runtime/device/fetch_ahead.h"
#include "tessera/machine/runtime/device/one_word.h"
#include "tessera/machine/target/features.h"
#include "tessera/machine/target/machine_table.h"
#include "tessera/machine/target/matrix_instructions.h"

namespace tessera::runtime {
namespace {

using cuda::Address;
using cuda::Driver;
using cuda::Status;

void* handle_of(Address address) { return reinterpret_cast<void*>(address); }
Address address_of(const void* handle) { return reinterpret_cast<Address>(handle); }

Result<target::Target> describe(const Driver& d, cuda::DeviceId device) {
  const auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    return d.device_attribute(&value, which, device) == 0 ? value : 0;
  };
  const int capability = 10 * attribute(cuda::kCapabilityMajor) + attribute(cuda::kCapabilityMinor);
  const target::GpuGeneration& generation = target::gpu_generation(capability);
  if (capability < generation.capability) {
    return make_error(ErrorCode::kUnsupported,
                      "the CUDA device has compute capability {}.{}, at least 7.0 is needed",
                      capability / 10, capability % 10);
  }
  std::array<char, 256> name = {};
  TESSERA_DO(d.check("cuDeviceGetName", d.device_name(name.data(), name.size() - 1, device)));
  // A newer device runs code for an older one, but not what only the older one has (sm_90a).
  std::string cpu(generation.cpu);
  if (capability != generation.capability && cpu.back() == 'a') cpu.pop_back();
  target::Target t = target::make_target(
      target::GpuMachine{"cuda", target::Kind::kCuda, generation, attribute(cuda::kMultiprocessors),
                         attribute(cuda::kL2Bytes), attribute(cuda::kClockKhz) / 1000,
                         static_cast<int>(2.0e-6 * attribute(cuda::kMemoryClockKhz) *
                                          (attribute(cuda::kMemoryBusBits) / 8)),
                         attribute(cuda::kMaxThreadsPerBlock)});
  t.name = one_word(name.data());
  t.cpu = cpu;
  int version = 0;  // of CUDA: 12040 is 12.4
  TESSERA_DO(d.check("cuDriverGetVersion", d.version(&version)));
  t.features += target::lacking_features(cuda::ptx_version(version));
  t.gpu.warp = attribute(cuda::kWarpSize);
  t.gpu.core_threads = attribute(cuda::kMaxThreadsPerMultiprocessor);
  t.gpu.core_blocks = attribute(cuda::kMaxBlocksPerMultiprocessor);
  t.gpu.core_registers = attribute(cuda::kMaxRegistersPerMultiprocessor);
  t.gpu.block_shared_bytes = attribute(cuda::kMaxSharedPerBlockOptin);
  t.gpu.core_shared_bytes = attribute(cuda::kMaxSharedPerMultiprocessor);
  return t;
}

class CudaCode final : public LoadedCode {
 public:
  CudaCode(const Driver& driver, cuda::Module module) : driver_(driver), module_(module) {}
  ~CudaCode() override {
    for (const Address a : temporaries) driver_.memory_free(a);
    driver_.module_unload(module_);
  }
  CudaCode(const CudaCode&) = delete;
  CudaCode& operator=(const CudaCode&) = delete;

  std::vector<LaunchInfo> launches;
  std::vector<cuda::Function> functions;  // of each launch
  std::vector<std::int64_t> temporary_bytes;
  std::vector<Address> temporaries;  // its own, made when a call brings none
  std::size_t parameters = 0;

 private:
  const Driver& driver_;
  cuda::Module module_;
};

class CudaRecording final : public Recording {
 public:
  CudaRecording(const Driver& driver, cuda::GraphExec e) : exec(e), driver_(driver) {}
  ~CudaRecording() override { driver_.graph_exec_destroy(exec); }
  CudaRecording(const CudaRecording&) = delete;
  CudaRecording& operator=(const CudaRecording&) = delete;

  const cuda::GraphExec exec;

 private:
  const Driver& driver_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(const Driver& driver, cuda::DeviceId device, target::Target target)
      : d_(driver), device_(device), target_(std::move(target)) {}

  ~CudaDevice() override {
    if (start_) d_.event_destroy(start_);
    if (end_) d_.event_destroy(end_);
    if (stream_) d_.stream_destroy(stream_);
    if (context_) d_.context_release(device_);
  }

  Result<void> start() {
    TESSERA_DO(d_.check("cuDevicePrimaryCtxRetain", d_.context_retain(&context_, device_)));
    TESSERA_DO(bind());
    TESSERA_DO(d_.check("cuStreamCreate", d_.stream_create(&stream_, cuda::kNonBlocking)));
    TESSERA_DO(d_.check("cuEventCreate", d_.event_create(&start_, 0)));
    return d_.check("cuEventCreate", d_.event_create(&end_, 0));
  }

  const target::Target& target() const override { return target_; }

  Result<void*> allocate(std::size_t bytes) override {
    TESSERA_DO(bind());
    Address address = 0;
    const Status status = d_.memory_allocate(&address, std::max<std::size_t>(bytes, 1));
    if (status == 0) return handle_of(address);
    return d_.failure(ErrorCode::kRunFailed, fmt::format("no memory for {} bytes", bytes).c_str(),
                      status);
  }

  void free(void* memory) override {
    if (bind().ok()) d_.memory_free(address_of(memory));
  }

  Result<void*> part(void* memory, std::size_t offset, std::size_t) override {
    return handle_of(address_of(memory) + offset);
  }

  Result<void> fill(void* memory, std::uint8_t value, std::size_t bytes) override {
    if (bytes == 0) return {};
    TESSERA_DO(bind());
    return d_.check("cuMemsetD8", d_.memory_fill(address_of(memory), value, bytes, stream_));
  }

  Result<void> upload(void* to, const void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    TESSERA_DO(bind());
    TESSERA_DO(d_.check("cuMemcpyHtoD", d_.copy_to_device(address_of(to), from, bytes, stream_)));
    return synchronise();
  }

  Result<void> download(void* to, void* from, std::size_t bytes) override {
    if (bytes == 0) return {};
    TESSERA_DO(bind());
    TESSERA_DO(d_.check("cuMemcpyDtoH", d_.copy_to_host(to, address_of(from), bytes, stream_)));
    return synchronise();
  }

  Result<std::unique_ptr<LoadedCode>> load(const Binary& binary) override;
  Result<void> launch(LoadedCode& code, std::span<void* const> memory) override {
    return launch_fetching(code, memory, {}, /*early=*/false);
  }

  Result<void> synchronise() override {
    TESSERA_DO(bind());
    return d_.check("the kernels", d_.stream_wait(stream_));
  }

  DeviceFeatures features() const override { return {.plans = true}; }
  Result<std::unique_ptr<Recording>> record(std::vector<Call> calls,
                                            const RecordingPlan& plan) override;

  Result<void> replay(Recording& recording) override {
    TESSERA_DO(bind());
    const cuda::GraphExec exec = static_cast<CudaRecording&>(recording).exec;
    return d_.check("cuGraphLaunch", d_.graph_launch(exec, stream_));
  }

  Result<double> time_replays(Recording& recording, int replays) override;

 private:
  // Contexts belong to threads; the device may be used from another one than it was opened in.
  Result<void> bind() const { return d_.check("cuCtxSetCurrent", d_.context_set(context_)); }
  Result<cuda::Module> assemble(const Binary& binary) const;
  Result<void> provide_temporaries(CudaCode& code, std::size_t given);
  Result<void> launch_fetching(LoadedCode& loaded, std::span<void* const> memory,
                               const Piece& piece, bool early);
  Status launch_kernel(cuda::Function function, const LaunchInfo& l, void** arguments,
                       bool early) const;
  Result<cuda::GraphExec> capture(std::span<const Call> calls, std::span<const Piece> fetched,
                                  bool early);
  Result<cuda::GraphExec> fork_and_join(std::span<const Call> calls, std::span<const Piece> fetched,
                                        const std::vector<std::vector<std::size_t>>& after) const;
  Result<void> add_nodes(cuda::Graph graph, std::span<const Call> calls,
                         std::span<const Piece> fetched,
                         const std::vector<std::vector<std::size_t>>& after) const;

  const Driver& d_;
  cuda::DeviceId device_;
  target::Target target_;
  cuda::Context context_ = nullptr;
  cuda::Stream stream_ = nullptr;
  cuda::Event start_ = nullptr, end_ = nullptr;
};

Result<cuda::Module> CudaDevice::assemble(const Binary& binary) const {
  std::string log(16 << 10, '\0');
  std::array<int, 2> options = {cuda::kErrorLog, cuda::kErrorLogBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
  const std::string text(binary.bytes.begin(), binary.bytes.end());
  cuda::Module module = nullptr;
  const Status status =
      d_.module_load(&module, text.c_str(), options.size(), options.data(), values.data());
  if (status == 0) return module;
  const Error error = d_.failure(ErrorCode::kBuildFailed, "cuModuleLoadDataEx", status);
  log.resize(std::min(log.find('\0'), log.size()));
  return Error{error.code, log.empty() ? error.message : error.message + "\n" + log};
}

Result<std::unique_ptr<LoadedCode>> CudaDevice::load(const Binary& binary) {
  const int made_for = binary.target.gpu.capability, here = target_.gpu.capability;
  const bool fits = (binary.kind == BinaryKind::kPtx && made_for <= here) ||
                    (binary.kind == BinaryKind::kCubin && made_for == here);
  if (!fits) {
    return make_error(ErrorCode::kUnsupported, "code for target {} does not run on {}",
                      binary.target.name, target_.name);
  }
  TESSERA_DO(bind());
  TESSERA_TRY(const cuda::Module module, assemble(binary));
  auto code = std::make_unique<CudaCode>(d_, module);
  code->launches = binary.launches;
  code->parameters = static_cast<std::size_t>(binary.parameters);
  code->temporary_bytes = binary.temporaries;
  for (const LaunchInfo& l : binary.launches) {
    cuda::Function function = nullptr;
    const Status found = d_.module_function(&function, module, l.name.c_str());
    if (found != 0) return d_.failure(ErrorCode::kBuildFailed, l.name.c_str(), found);
    // Beyond 48 KiB shared memory has to be asked for.
    if (l.shared_bytes > 0) {
      TESSERA_DO(d_.check("shared memory", d_.function_set(function, cuda::kMaxDynamicShared,
                                                           static_cast<int>(l.shared_bytes))));
    }
    // Asking loads it now: a launch that is captured must not.
    int registers = 0;
    TESSERA_DO(d_.check(l.name.c_str(), d_.function_get(&registers, cuda::kRegisters, function)));
    code->functions.push_back(function);
  }
  return std::unique_ptr<LoadedCode>(std::move(code));
}

Result<void> CudaDevice::provide_temporaries(CudaCode& code, std::size_t given) {
  if (given > code.parameters) return {};
  for (std::size_t i = code.temporaries.size(); i < code.temporary_bytes.size(); ++i) {
    TESSERA_TRY(void* memory, allocate(static_cast<std::size_t>(code.temporary_bytes[i])));
    code.temporaries.push_back(address_of(memory));
  }
  return {};
}

// What a launch takes, as the driver reads it. Kernels for Hopper take three numbers more, of what
// the first launch of a call fetches; others do not look at them.
class Arguments {
 public:
  Arguments(const CudaCode& code, std::size_t launch, std::span<void* const> memory,
            const Piece& piece) {
    for (void* m : memory) addresses_.push_back(address_of(m));
    if (memory.size() == code.parameters)
      addresses_.insert(addresses_.end(), code.temporaries.begin(), code.temporaries.end());
    const LaunchInfo& l = code.launches[launch];
    for (const int index : l.arguments)
      pointers_.push_back(&addresses_[static_cast<std::size_t>(index)]);
    const std::uint64_t bytes = launch == 0 ? piece.bytes / kFetchGrain * kFetchGrain : 0;
    const auto blocks =
        static_cast<std::uint64_t>(std::max<std::int64_t>(1, l.grid[0] * l.grid[1] * l.grid[2]));
    begin_ = address_of(piece.memory);
    end_ = begin_ + bytes;
    share_ = (bytes / blocks + kFetchGrain) / kFetchGrain * kFetchGrain;
    pointers_.insert(pointers_.end(), {&begin_, &end_, &share_});
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void** get() { return pointers_.data(); }

 private:
  std::vector<Address> addresses_;
  std::vector<void*> pointers_;
  Address begin_ = 0, end_ = 0;
  std::uint64_t share_ = 0;
};

Result<void> CudaDevice::launch_fetching(LoadedCode& loaded, std::span<void* const> memory,
                                         const Piece& piece, bool early) {
  auto& code = static_cast<CudaCode&>(loaded);
  TESSERA_DO(bind());
  TESSERA_DO(provide_temporaries(code, memory.size()));
  for (std::size_t i = 0; i < code.launches.size(); ++i) {
    const LaunchInfo& l = code.launches[i];
    Arguments arguments(code, i, memory, piece);
    const Status status = launch_kernel(code.functions[i], l, arguments.get(), early && l.waits);
    TESSERA_DO(d_.check(l.name.c_str(), status));
  }
  return {};
}

// `early`: as soon as all blocks of the kernel before it have ended, while what they wrote is still
// on its way to where others see it. Kernels that wait for that themselves gain the time it takes
// to start them.
Status CudaDevice::launch_kernel(cuda::Function function, const LaunchInfo& l, void** arguments,
                                 bool early) const {
  const auto u = [](std::int64_t n) { return static_cast<unsigned>(n); };
  if (!early) {
    return d_.launch(function, u(l.grid[0]), u(l.grid[1]), u(l.grid[2]), u(l.block[0]),
                     u(l.block[1]), u(l.block[2]), u(l.shared_bytes), stream_, arguments, nullptr);
  }
  cuda::LaunchAttribute attribute;
  attribute.id = cuda::kProgrammaticSerialisation;
  attribute.number = 1;
  const cuda::LaunchConfig config = {{u(l.grid[0]), u(l.grid[1]), u(l.grid[2])},
                                     {u(l.block[0]), u(l.block[1]), u(l.block[2])},
                                     u(l.shared_bytes),
                                     stream_,
                                     &attribute,
                                     1};
  return d_.launch_with(&config, function, arguments, nullptr);
}

Result<cuda::GraphExec> CudaDevice::capture(std::span<const Call> calls,
                                            std::span<const Piece> fetched, bool early) {
  TESSERA_DO(
      d_.check("cuStreamBeginCapture", d_.capture_begin(stream_, cuda::kCaptureThreadLocal)));
  Result<void> launched;
  for (std::size_t i = 0; i < calls.size() && launched.ok(); ++i) {
    launched = launch_fetching(*calls[i].code, calls[i].memory,
                               i < fetched.size() ? fetched[i] : Piece{}, early);
  }
  cuda::Graph graph = nullptr;
  const Status captured = d_.capture_end(stream_, &graph);
  if (launched.ok()) launched = d_.check("cuStreamEndCapture", captured);
  cuda::GraphExec exec = nullptr;
  if (launched.ok())
    launched = d_.check("cuGraphInstantiate", d_.graph_instantiate(&exec, graph, 0));
  if (graph) d_.graph_destroy(graph);
  if (!launched.ok()) return launched.error();
  return exec;
}

// Edges between kernels that wait are early ones, also where several meet: a kernel waits for all
// that it comes after, and these have waited for those before them.
Result<void> CudaDevice::add_nodes(cuda::Graph graph, std::span<const Call> calls,
                                   std::span<const Piece> fetched,
                                   const std::vector<std::vector<std::size_t>>& after) const {
  const auto u = [](std::int64_t n) { return static_cast<unsigned>(n); };
  std::vector<std::vector<cuda::GraphNode>> last(calls.size());  // launch of each call
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto& code = static_cast<const CudaCode&>(*calls[i].code);
    std::vector<cuda::GraphNode>& before = last[i];
    for (const std::size_t earlier : after[i])
      before.insert(before.end(), last[earlier].begin(), last[earlier].end());
    for (std::size_t n = 0; n < code.launches.size(); ++n) {
      const LaunchInfo& l = code.launches[n];
      Arguments arguments(code, n, calls[i].memory, i < fetched.size() ? fetched[i] : Piece{});
      cuda::KernelNode kernel;
      kernel.function = code.functions[n];
      for (std::size_t d = 0; d < 3; ++d) {
        kernel.grid[d] = u(l.grid[d]);
        kernel.block[d] = u(l.block[d]);
      }
      kernel.shared_bytes = u(l.shared_bytes);
      kernel.arguments = arguments.get();
      cuda::GraphNode node = nullptr;
      TESSERA_DO(d_.check(l.name.c_str(), d_.graph_add_kernel(&node, graph, nullptr, 0, &kernel)));
      cuda::EdgeData edge;
      if (l.waits) {
        edge.from_port = cuda::kProgrammaticPort;
        edge.type = cuda::kProgrammaticEdge;
      }
      for (const cuda::GraphNode from : before)
        TESSERA_DO(
            d_.check("cuGraphAddDependencies", d_.graph_add_edges(graph, &from, &node, &edge, 1)));
      before = {node};
    }
  }
  return {};
}

Result<cuda::GraphExec> CudaDevice::fork_and_join(
    std::span<const Call> calls, std::span<const Piece> fetched,
    const std::vector<std::vector<std::size_t>>& after) const {
  if (!d_.graph_add_edges)
    return make_error(ErrorCode::kUnavailable,
                      "the CUDA driver is too old to run kernels side by side");
  cuda::Graph graph = nullptr;
  TESSERA_DO(d_.check("cuGraphCreate", d_.graph_create(&graph, 0)));
  Result<void> added = add_nodes(graph, calls, fetched, after);
  cuda::GraphExec exec = nullptr;
  if (added.ok()) added = d_.check("cuGraphInstantiate", d_.graph_instantiate(&exec, graph, 0));
  d_.graph_destroy(graph);
  if (!added.ok()) return added.error();
  return exec;
}

// A graph: on a stream, small kernels would take as long as it takes to start them.
Result<std::unique_ptr<Recording>> CudaDevice::record(std::vector<Call> calls,
                                                      const RecordingPlan& plan) {
  const auto& [fetched, after] = plan;
  TESSERA_DO(bind());
  for (const Call& call : calls)
    TESSERA_DO(provide_temporaries(static_cast<CudaCode&>(*call.code), call.memory.size()));
  // A driver may know early launches, but not in graphs.
  const bool early = d_.launch_with != nullptr;
  Result<cuda::GraphExec> made =
      after.empty() ? capture(calls, fetched, early) : fork_and_join(calls, fetched, after);
  if (!made.ok() && after.empty() && early) made = capture(calls, fetched, /*early=*/false);
  TESSERA_TRY(const cuda::GraphExec exec, std::move(made));
  auto recording = std::make_unique<CudaRecording>(d_, exec);
  TESSERA_DO(d_.check("cuGraphUpload", d_.graph_upload(exec, stream_)));
  return std::unique_ptr<Recording>(std::move(recording));
}

Result<double> CudaDevice::time_replays(Recording& recording, int replays) {
  TESSERA_DO(bind());
  TESSERA_DO(d_.check("cuEventRecord", d_.event_record(start_, stream_)));
  for (int i = 0; i < replays; ++i) TESSERA_DO(replay(recording));
  TESSERA_DO(d_.check("cuEventRecord", d_.event_record(end_, stream_)));
  TESSERA_DO(d_.check("the kernels", d_.event_wait(end_)));
  float ms = 0;
  TESSERA_DO(d_.check("cuEventElapsedTime", d_.event_milliseconds(&ms, start_, end_)));
  return 1e-3 * static_cast<double>(ms);
}

}  // namespace

Result<std::unique_ptr<Device>> open_cuda_device(int ordinal) {
  TESSERA_TRY(const Driver* d, cuda::driver());
  cuda::DeviceId id = 0;
  if (const Status status = d->device_get(&id, ordinal))
    return d->failure(ErrorCode::kUnavailable, "no such CUDA device", status);
  TESSERA_TRY(target::Target target, describe(*d, id));
  auto device = std::make_unique<CudaDevice>(*d, id, std::move(target));
  if (const Result<void> started = device->start(); !started.ok()) {
    return Error{ErrorCode::kUnavailable, started.error().message};
  }
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace tessera::runtime
