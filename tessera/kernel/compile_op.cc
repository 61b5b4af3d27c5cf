#include "tessera/kernel/compile_op.h"

#include <chrono>

#include "tessera/lower/lower_device.h"
#include "tessera/runtime/device/cpu_device.h"

namespace tessera::kernel {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

Result<std::unique_ptr<runtime::LoadedCode>> load(const runtime::Binary& binary,
                                                  const CompileOptions& options) {
  if (options.device) return options.device->load(binary);
  TESSERA_TRY(std::unique_ptr<runtime::CpuKernel> kernel, runtime::load_kernel(binary));
  return std::unique_ptr<runtime::LoadedCode>(std::move(kernel));
}

// Launches of a GPU instead of a function.
Result<CompiledOp> compile_device(const schedule::State& state, const target::Target& target,
                                  const CompileOptions& options,
                                  std::chrono::steady_clock::time_point start, CompiledOp op) {
  TESSERA_TRY(lower::LoweredDevice lowered, lower::lower_device(state, target, options.passes));
  op.lowered.param_layouts = std::move(lowered.param_layouts);
  op.times.insert(op.times.end(), lowered.times.begin(), lowered.times.end());
  const auto building = std::chrono::steady_clock::now();
  TESSERA_TRY(const codegen::Binary binary,
              codegen::compile(lowered.program, target, options.codegen));
  op.times.push_back({"codegen", elapsed_ms(building)});
  const auto loading = std::chrono::steady_clock::now();
  TESSERA_TRY(op.code, load(binary, options));
  op.times.push_back({"load", elapsed_ms(loading)});
  op.total_ms = elapsed_ms(start);
  return op;
}

}  // namespace

Result<CompiledOp> compile_op(const te::Dag& dag, const std::string& schedule_text,
                              const target::Target& target, const CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  CompiledOp op;
  op.dag = dag;
  std::string key;
  if (options.cache) {
    key = KernelCache::key(target, options.codegen, te::to_text(dag), schedule_text + "end");
    std::optional<CachedKernel> known = options.cache->find(key, target);
    // A damaged entry is as good as none.
    if (auto code = known ? load(known->binary, options) : Error{}; code.ok()) {
      op.code = std::move(*code);
      op.lowered.param_layouts = std::move(known->param_layouts);
      op.total_ms = elapsed_ms(start);
      return op;
    }
  }
  TESSERA_TRY(const schedule::Schedule schedule, schedule::schedule_from_text(schedule_text));
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
  op.times.push_back({"apply_schedule", elapsed_ms(start)});
  if (target.is_gpu()) return compile_device(state, target, options, start, std::move(op));
  TESSERA_TRY(op.lowered, lower::lower(state, target, options.passes));
  op.times.insert(op.times.end(), op.lowered.times.begin(), op.lowered.times.end());
  codegen::CodegenTimes t;
  TESSERA_TRY(const codegen::Binary binary,
              codegen::compile_kernel(op.lowered.func, target, options.codegen, &t));
  const auto loading = std::chrono::steady_clock::now();
  TESSERA_TRY(op.code, load(binary, options));
  const double load_ms = elapsed_ms(loading);
  if (!key.empty()) {
    options.cache->store(key, binary, op.lowered.param_layouts, kernel_digest(op.lowered.func));
  }
  op.times.push_back({"llvm_build", t.build_ms});
  op.times.push_back({"llvm_optimise", t.optimise_ms});
  op.times.push_back({"llvm_emit", t.emit_ms});
  op.times.push_back({"load", load_ms});
  op.total_ms = elapsed_ms(start);
  return op;
}

Result<void> OpRunner::allocate() {
  if (!buffers_.empty()) return {};
  std::vector<runtime::DeviceBuffer> buffers;
  const auto add = [&](const ir::Buffer& b, const Shape& stored) -> Result<void> {
    const auto bytes = static_cast<std::size_t>(elements(stored) * size_bytes(b->dtype));
    TESSERA_TRY(runtime::DeviceBuffer memory, runtime::DeviceBuffer::make(device_, bytes));
    const std::vector<std::byte> zeros(bytes);
    TESSERA_DO(device_.upload(memory.get(), zeros.data(), bytes));
    buffers.push_back(std::move(memory));
    return {};
  };
  for (std::size_t i = 0; i < op_.dag.inputs.size(); ++i) {
    const ir::Buffer& b = op_.dag.inputs[i].buffer;
    const schedule::Layout& layout = op_.lowered.param_layouts[i];
    TESSERA_DO(add(b, layout.empty() ? b->shape : schedule::layout_shape(layout, b->shape)));
  }
  for (const ir::Buffer& b : op_.dag.outputs) TESSERA_DO(add(b, b->shape));
  buffers_ = std::move(buffers);
  for (const runtime::DeviceBuffer& b : buffers_) params_.push_back(b.get());
  return {};
}

Result<void> OpRunner::set_input(std::size_t index, const HostTensor& tensor) {
  const ir::Buffer& b = op_.dag.inputs[index].buffer;
  if (tensor.dtype() != b->dtype || tensor.shape() != b->shape) {
    return make_error(ErrorCode::kInvalidArgument, "input {} must be {} {}, not {} {}", b->name,
                      to_text(b->dtype), to_text(b->shape), to_text(tensor.dtype()),
                      to_text(tensor.shape()));
  }
  TESSERA_DO(allocate());
  const schedule::Layout& layout = op_.lowered.param_layouts[index];
  const HostTensor stored = layout.empty() ? tensor : lower::pack(tensor, layout);
  return device_.upload(params_[index], stored.data(), stored.bytes());
}

Result<void> OpRunner::run() {
  TESSERA_DO(allocate());
  return device_.launch(*op_.code, params_);
}

Result<double> OpRunner::time(int calls) {
  TESSERA_DO(allocate());
  return device_.time(*op_.code, params_, calls);
}

Result<HostTensor> OpRunner::output(std::size_t index) {
  TESSERA_DO(allocate());
  const ir::Buffer& b = op_.dag.outputs[index];
  HostTensor out(b->dtype, b->shape);
  TESSERA_DO(device_.download(out.data(), params_[op_.dag.inputs.size() + index], out.bytes()));
  return out;
}

}  // namespace tessera::kernel
