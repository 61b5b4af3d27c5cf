#include "tessera/trials/measure/cpu_candidate.h"

#include <cstring>

namespace tessera::measure {

Result<std::unique_ptr<CpuCandidate>> CpuCandidate::load(const RunItem& item, const te::Dag& dag,
                                                         TaskData& data, runtime::ThreadPool& pool,
                                                         const WorkerHooks& hooks) {
  const Built& built = item.built;
  std::unique_ptr<CpuCandidate> c(new CpuCandidate(item, data, pool, hooks));
  // Whoever built it had no complaint.
  Result<std::unique_ptr<runtime::LoadedObject>> object = runtime::load_object(built.object);
  if (!object.ok()) return Error{ErrorCode::kRunFailed, object.error().message};
  c->object_ = std::move(object).value();
  c->entry_ = reinterpret_cast<tsr_kernel>(c->object_->symbol(built.symbol));
  if (c->entry_ == nullptr)
    return make_error(ErrorCode::kRunFailed, "{} is not in its object code", built.symbol);
  for (std::size_t i = 0; i < dag.inputs.size(); ++i) {
    const std::string layout = i < built.layouts.size() ? built.layouts[i] : "";
    TESSERA_TRY(std::byte * at, data.input(i, layout));
    c->params_.push_back(at);
    const ir::Buffer& b = dag.inputs[i].buffer;
    const auto bytes = static_cast<std::size_t>(b.size() * size_bytes(b->dtype));
    if (!dag.inputs[i].constant) c->variables_.emplace_back(at, bytes);
  }
  for (std::byte* at : data.outputs()) c->params_.push_back(at);
  const std::int64_t bytes =
      built.shared_bytes + built.worker_bytes * std::int64_t{pool.host()->num_workers};
  TESSERA_TRY(c->workspace_, GuardedBuffer::make(static_cast<std::size_t>(bytes)));
  c->plain_call_ = [raw = c.get()] {
    raw->entry_(raw->params_.data(), raw->workspace_.data(), raw->pool_.host());
  };
  return c;
}

void CpuCandidate::call() {
  if (hooks_.call) {
    hooks_.call(item_.job.trial, plain_call_, params_);
  } else {
    entry_(params_.data(), workspace_.data(), pool_.host());
  }
}

bool CpuCandidate::check(Measurement* m) {
  data_.clear_outputs();
  // Temporaries that are read before they are written show as wrong results.
  std::memset(workspace_.data(), 0xff, workspace_.bytes());
  call();
  return recheck(m);
}

void CpuCandidate::touch_variables() const {
  for (const std::span<const std::byte> memory : variables_) {
    const volatile std::byte* at = memory.data();
    for (std::size_t i = 0; i < memory.size(); i += 64) (void)at[i];
  }
}

bool CpuCandidate::recheck(Measurement* m) const {
  std::string damage = data_.damage();
  if (damage.empty()) {
    damage = workspace_.damage();
    if (!damage.empty()) damage = "workspace: " + damage;
  }
  if (!damage.empty()) {
    data_.repair();
    m->outcome = Outcome::kOutOfBounds;
    m->reason = damage;
    return false;
  }
  m->reason = data_.wrong_output();
  if (m->reason.empty()) return true;
  m->outcome = Outcome::kWrongResult;
  return false;
}

}  // namespace tessera::measure
