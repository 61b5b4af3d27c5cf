#include "tessera/kernel/compile_op.h"

#include <chrono>
#include <cstring>

namespace tessera::kernel {
namespace {

double elapsed_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
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
    if (std::optional<CallableKernel> known = options.cache->find(key)) {
      op.kernel = std::move(known->kernel);
      op.lowered.param_layouts = std::move(known->param_layouts);
      op.total_ms = elapsed_ms(start);
      return op;
    }
  }
  TESSERA_TRY(const schedule::Schedule schedule, schedule::schedule_from_text(schedule_text));
  TESSERA_TRY(const schedule::State state, schedule::apply(dag, schedule));
  op.times.push_back({"apply_schedule", elapsed_ms(start)});
  TESSERA_TRY(op.lowered, lower::lower(state, target, options.passes));
  op.times.insert(op.times.end(), op.lowered.times.begin(), op.lowered.times.end());
  codegen::ObjectCode object;
  TESSERA_TRY(op.kernel, codegen::jit(op.lowered.func, target, options.codegen,
                                      key.empty() ? nullptr : &object));
  if (!key.empty()) options.cache->store(key, object, op.lowered.param_layouts);
  const codegen::CodegenTimes& t = op.kernel->times;
  op.times.push_back({"llvm_build", t.build_ms});
  op.times.push_back({"llvm_optimise", t.optimise_ms});
  op.times.push_back({"llvm_emit", t.emit_ms});
  op.times.push_back({"llvm_link", t.link_ms});
  op.total_ms = elapsed_ms(start);
  return op;
}

OpRunner::OpRunner(const CompiledOp& op, runtime::ThreadPool& pool) : op_(op), pool_(pool) {
  const auto add = [&](const ir::Buffer& b, const Shape& stored) {
    const auto bytes = static_cast<std::size_t>(elements(stored) * size_bytes(b->dtype));
    buffers_.emplace_back(std::max<std::size_t>(bytes, 64));
    std::memset(buffers_.back().data(), 0, bytes);
    params_.push_back(buffers_.back().data());
  };
  for (std::size_t i = 0; i < op.dag.inputs.size(); ++i) {
    const ir::Buffer& b = op.dag.inputs[i].buffer;
    const schedule::Layout& layout = op.lowered.param_layouts[i];
    add(b, layout.empty() ? b->shape : schedule::layout_shape(layout, b->shape));
  }
  for (const ir::Buffer& b : op.dag.outputs) add(b, b->shape);
  const codegen::KernelInfo& info = op.kernel->info;
  const std::int64_t bytes = info.shared_bytes + info.worker_bytes * pool.host()->num_workers;
  workspace_ = runtime::AlignedBuffer(static_cast<std::size_t>(std::max<std::int64_t>(bytes, 64)));
}

Result<void> OpRunner::set_input(std::size_t index, const HostTensor& tensor) {
  const ir::Buffer& b = op_.dag.inputs[index].buffer;
  if (tensor.dtype() != b->dtype || tensor.shape() != b->shape) {
    return make_error(ErrorCode::kInvalidArgument, "input {} must be {} {}, not {} {}", b->name,
                      to_text(b->dtype), to_text(b->shape), to_text(tensor.dtype()),
                      to_text(tensor.shape()));
  }
  const schedule::Layout& layout = op_.lowered.param_layouts[index];
  const HostTensor stored = layout.empty() ? tensor : lower::pack(tensor, layout);
  std::memcpy(params_[index], stored.data(), stored.bytes());
  return {};
}

void OpRunner::run() { op_.kernel->entry(params_.data(), workspace_.data(), pool_.host()); }

HostTensor OpRunner::output(std::size_t index) const {
  const ir::Buffer& b = op_.dag.outputs[index];
  HostTensor out(b->dtype, b->shape);
  std::memcpy(out.data(), params_[op_.dag.inputs.size() + index], out.bytes());
  return out;
}

}  // namespace tessera::kernel
