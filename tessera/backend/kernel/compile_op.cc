#include "tessera/backend/kernel/compile_op.h"

#include "tessera/scheduling/lower/lower.h"
#include "tessera/support/clock.h"

namespace tessera::kernel {

Result<CompiledOp> compile_op(const te::Dag& dag, const std::string& schedule_text,
                              const target::Target& target, const CompileOptions& options) {
  TESSERA_TRY(const schedule::Schedule schedule, schedule::schedule_from_text(schedule_text));
  return compile_op(dag, schedule, target, options);
}

Result<CompiledOp> compile_op(const te::Dag& dag, const std::optional<schedule::Schedule>& schedule,
                              const target::Target& target, const CompileOptions& options) {
  const Clock::time_point start = Clock::now();
  TESSERA_TRY(LoadedKernel loaded, load_or_build(dag, schedule, target,
                                                 {.build = options.build,
                                                  .cache = options.cache.get(),
                                                  .device = options.device}));
  CompiledOp op{.dag = dag,
                .param_layouts = std::move(loaded.kernel.param_layouts),
                .code = std::move(loaded.code),
                .times = std::move(loaded.times)};
  op.total_ms = milliseconds_since(start);
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
    const schedule::Layout& layout = op_.param_layouts[i];
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
  const schedule::Layout& layout = op_.param_layouts[index];
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
