#include "tessera/trials/measure/model_stand.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/backend/exec/model_runner.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tessera/machine/runtime/object_loader.h"
#include "tessera/machine/runtime/timing.h"
#include "tessera/machine/target/fast_math.h"
#include "tessera/scheduling/lower/lower.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"
#include "tessera/support/rng.h"
#include "tessera/trials/measure/calibration.h"
#include "tessera/trials/measure/guarded_buffer.h"
#include "tessera/trials/measure/task_data.h"

namespace tessera::measure {
namespace {

constexpr int kCalibrationRuns = 5;  // before and again after the runs
// A model that takes longer fills the caches for itself; others run once before they are timed.
constexpr double kLongRun = 0.05;
// Packed constants that are kept for the next candidates, times those of the model.
constexpr double kMostPacked = 3;

// A candidate in its places.
struct Placed {
  std::size_t item = 0;
  const RunItem* run = nullptr;
  const te::Dag* dag = nullptr;
  Measurement* measurement = nullptr;
  std::unique_ptr<runtime::LoadedObject> object;
  tsr_kernel entry = nullptr;
  std::int64_t workspace_bytes = 0;
  std::map<std::size_t, std::vector<void*>> params;  // by step of the model

  bool good() const { return measurement->outcome == Outcome::kOk; }
  void fail(Outcome outcome, std::string reason) {
    measurement->outcome = outcome;
    measurement->reason = std::move(reason);
    measurement->samples_s.clear();
    measurement->default_s = 0;
  }
};

// The clock after every step, as seconds of each, and what threads waited in the whole run.
struct StampedRun {
  std::vector<double> step_s;
  runtime::RawSample whole;
};

// Two runs in a row: every candidate is in one of them, and the model's own kernel in the other.
struct StampedPair {
  std::vector<bool> first;  // by candidate: whether it is in the first run
  StampedRun runs[2];

  const StampedRun& with(std::size_t candidate) const { return runs[first[candidate] ? 0 : 1]; }
  const StampedRun& without(std::size_t candidate) const { return runs[first[candidate] ? 1 : 0]; }
  bool is_clean() const {
    return runtime::is_clean(runs[0].whole) && runtime::is_clean(runs[1].whole);
  }
  double share_waited() const {
    return (runs[0].whole.wait_s + runs[1].whole.wait_s) /
           (runs[0].whole.total_s + runs[1].whole.total_s);
  }
};

// The clean ones, or, where these are too few, those that waited least.
std::vector<const StampedPair*> kept_pairs(const std::vector<StampedPair>& pairs, int least) {
  std::vector<const StampedPair*> out;
  for (const StampedPair& pair : pairs) out.push_back(&pair);
  std::stable_sort(out.begin(), out.end(), [](const StampedPair* a, const StampedPair* b) {
    return a->share_waited() < b->share_waited();
  });
  const auto good = std::count_if(pairs.begin(), pairs.end(),
                                  [](const StampedPair& pair) { return pair.is_clean(); });
  const auto kept = static_cast<std::size_t>(std::max<std::ptrdiff_t>(good, least));
  out.resize(std::min(out.size(), kept));
  std::sort(out.begin(), out.end());  // as they were taken
  return out;
}

class ModelStand final : public InPlaceStand {
 public:
  ModelStand(const StandParts& parts, std::shared_ptr<const PlacedModel> model)
      : parts_(parts),
        placed_(std::move(model)),
        model_(placed_->model),
        pool_({.threads = parts.options.threads, .pin = true}),
        device_(pool_),
        runner_(model_, device_) {}

  Result<void> set_up();
  void run(const RunRequest& request, const Announce& announce, RunReply* reply) override;

 private:
  Result<Placed> load(const RunItem& item);
  Result<void*> constant(const std::string& name, const std::string& layout, const Shape& shape);
  void reserve_workspace(std::int64_t bytes);
  double now() const {
    return parts_.options.hooks.clock ? parts_.options.hooks.clock()
                                      : seconds_between(Clock::time_point(), Clock::now());
  }
  std::int32_t call(const Placed& c, std::vector<void*>& params, void* workspace);
  void run_own(std::size_t step);
  void check(Placed& c, std::size_t step);
  void check_all(const Announce& announce);
  // With the candidates for which `placed` is true, by their number, in their places.
  StampedRun stamped(const std::vector<bool>& placed);
  StampedPair stamped_pair(bool warm, const Announce& announce);
  void time_all(const Announce& announce, RunReply* reply);
  std::size_t number_of(const Placed& c) const {
    return static_cast<std::size_t>(&c - candidates_.data());
  }
  std::string outputs() const;

  StandParts parts_;
  std::shared_ptr<const PlacedModel> placed_;
  const exec::CompiledModel& model_;
  runtime::ThreadPool pool_;
  runtime::CpuDevice device_;  // of the pool
  exec::ModelRunner runner_;
  runtime::RunQueueClock run_queue_;
  CalibrationKernel calibration_;
  runtime::AlignedBuffer workspace_;  // of all kernels, as in a model
  std::map<std::pair<std::string, std::string>, HostTensor> packed_;  // by name and layout
  std::vector<Placed> candidates_;
  std::vector<Placed*> at_;  // by step; null: the model's own kernel
  std::string outputs_;      // of the model's own kernels
  bool repeatable_ = false;  // they are the same bytes in every run
  double run_s_ = 0;
  Rng rng_{1};
};

void ModelStand::reserve_workspace(std::int64_t bytes) {
  const auto wanted =
      std::max<std::size_t>(static_cast<std::size_t>(bytes), runtime::AlignedBuffer::kAlignment);
  if (workspace_.bytes() < wanted) workspace_ = runtime::AlignedBuffer(wanted);
}

std::string ModelStand::outputs() const {
  std::string out;
  for (std::size_t i = 0; i < model_.output_types.size(); ++i) {
    const HostTensor tensor = runner_.output(i);
    out.append(tensor.as<char>(), tensor.bytes());
  }
  return out;
}

Result<void> ModelStand::set_up() {
  for (std::size_t i = 0; i < placed_->inputs.size(); ++i)
    TESSERA_DO(runner_.set_input(i, placed_->inputs[i]));
  for (const auto& kernel : model_.kernels) {
    const runtime::KernelInfo& info = static_cast<const runtime::CpuKernel&>(*kernel).info;
    reserve_workspace(info.shared_bytes + info.worker_bytes * pool_.host()->num_workers);
  }
  at_.assign(model_.steps.size(), nullptr);
  TESSERA_DO(runner_.run());  // checks the inputs, too
  stamped({});
  outputs_ = outputs();
  run_s_ = stamped({}).whole.total_s;
  repeatable_ = outputs() == outputs_;
  calibration_.run(4 * kCalibrationRuns);
  return {};
}

Result<void*> ModelStand::constant(const std::string& name, const std::string& layout,
                                   const Shape& shape) {
  HostTensor& packed = packed_[{name, layout}];
  if (packed.data() == nullptr) {
    const HostTensor plain = placed_->constants.at(name).reshaped(shape);
    if (layout.empty()) {
      packed = plain.clone();
    } else {
      TESSERA_TRY(const schedule::Layout parsed, schedule::layout_from_text(layout));
      TESSERA_DO(schedule::check_layout(parsed, shape.size()));
      packed = lower::pack(plain, parsed);
    }
  }
  return packed.data();
}

Result<Placed> ModelStand::load(const RunItem& item) {
  Placed out;
  const Built& built = item.built;
  out.run = &item;
  out.dag = &parts_.tasks[item.job.task];
  TESSERA_TRY(out.object, runtime::load_object(built.object));
  out.entry = reinterpret_cast<tsr_kernel>(out.object->symbol(built.symbol));
  if (out.entry == nullptr)
    return make_error(ErrorCode::kRunFailed, "{} is not in its object code", built.symbol);
  out.workspace_bytes =
      built.shared_bytes + built.worker_bytes * std::int64_t{pool_.host()->num_workers};
  reserve_workspace(out.workspace_bytes);
  for (std::size_t s = 0; s < model_.steps.size(); ++s) {
    const exec::CompiledModel::Step& step = model_.steps[s];
    if (step.kind == task::GroupKind::kHost || placed_->tasks[step.kernel] != item.job.task)
      continue;
    std::vector<void*> params(runner_.memory(s).begin(), runner_.memory(s).end());
    for (std::size_t i = 0; i < step.reads; ++i) {
      if (step.params[i].place != exec::Place::kConstant) continue;
      const exec::CompiledModel::ConstantName& own = model_.constant_names[step.params[i].index];
      const std::string layout = i < built.layouts.size() ? built.layouts[i] : "";
      if (layout == own.layout) continue;
      TESSERA_TRY(params[i], constant(own.value, layout, out.dag->inputs[i].buffer->shape));
    }
    out.params[s] = std::move(params);
  }
  if (out.params.empty()) return make_error(ErrorCode::kRunFailed, "the model has no place for it");
  return out;
}

std::int32_t ModelStand::call(const Placed& c, std::vector<void*>& params, void* workspace) {
  std::int32_t status = 0;
  const auto plain = [&] { status = c.entry(params.data(), workspace, pool_.host()); };
  *parts_.current = static_cast<std::uint32_t>(c.item);
  if (parts_.options.hooks.call) {
    parts_.options.hooks.call(c.run->job.trial, plain, params);
  } else {
    plain();
  }
  *parts_.current = kNoItem;
  return status;
}

void ModelStand::run_own(std::size_t step) {
  const exec::CompiledModel::Step& s = model_.steps[step];
  if (s.kind == task::GroupKind::kHost) {
    (void)runner_.run_step(step);  // set_up() saw that it runs on these inputs
    return;
  }
  const auto& kernel = static_cast<const runtime::CpuKernel&>(*model_.kernels[s.kernel]);
  kernel.entry(runner_.memory(step).data(), workspace_.data(), pool_.host());
}

// Behind the model's own kernel, whose outputs are those that it should compute.
void ModelStand::check(Placed& c, std::size_t step) {
  const std::vector<ir::Buffer>& buffers = c.dag->outputs;
  std::vector<void*> params = c.params.at(step);
  const std::size_t first = params.size() - buffers.size();
  std::vector<GuardedBuffer> outputs;
  for (std::size_t o = 0; o < buffers.size(); ++o) {
    const auto bytes = static_cast<std::size_t>(buffers[o].size() * size_bytes(buffers[o]->dtype));
    Result<GuardedBuffer> made = GuardedBuffer::make(bytes);
    if (!made.ok()) return c.fail(Outcome::kWorkerLost, made.error().message);
    std::memset(made->data(), 0xff, bytes);
    params[first + o] = made->data();
    outputs.push_back(std::move(made).value());
  }
  Result<GuardedBuffer> workspace =
      GuardedBuffer::make(static_cast<std::size_t>(c.workspace_bytes));
  if (!workspace.ok()) return c.fail(Outcome::kWorkerLost, workspace.error().message);
  // Temporaries that are read before they are written show as wrong results.
  std::memset(workspace->data(), 0xff, workspace->bytes());
  const std::int32_t status = call(c, params, workspace->data());
  if (status != 0) return c.fail(Outcome::kRunError, fmt::format("it returned {}", status));
  if (const std::string what = workspace->damage(); !what.empty())
    return c.fail(Outcome::kOutOfBounds, "workspace: " + what);
  for (std::size_t o = 0; o < buffers.size(); ++o) {
    const std::string what = outputs[o].damage();
    if (!what.empty())
      return c.fail(Outcome::kOutOfBounds, fmt::format("output {}: {}", buffers[o]->name, what));
  }
  if (!parts_.options.check_results) return;
  for (std::size_t o = 0; o < buffers.size(); ++o) {
    HostTensor want(buffers[o]->dtype, buffers[o]->shape);
    std::memcpy(want.data(), runner_.memory(step)[first + o], want.bytes());
    const std::string what =
        compare_output(*c.dag, o, want, outputs[o].data(), target::products_of(parts_.target));
    if (!what.empty())
      return c.fail(Outcome::kWrongResult, fmt::format("output {}: {}", buffers[o]->name, what));
  }
}

// A run of the model's own kernels, with every candidate checked behind the kernel of its place.
void ModelStand::check_all(const Announce& announce) {
  const runtime::ThreadPool::Session session(pool_);
  for (std::size_t s = 0; s < at_.size(); ++s) {
    run_own(s);
    if (at_[s] == nullptr || !at_[s]->good()) continue;
    announce(Kind::kCalling, at_[s]->item);
    check(*at_[s], s);
  }
}

StampedRun ModelStand::stamped(const std::vector<bool>& placed) {
  const runtime::ThreadPool::Session session(pool_);
  StampedRun out;
  out.step_s.reserve(at_.size());
  (void)run_queue_.elapsed_wait_ns();
  const double start = now();
  double last = start;
  for (std::size_t s = 0; s < at_.size(); ++s) {
    Placed* c = placed.empty() ? nullptr : at_[s];
    if (c != nullptr && c->good() && placed[number_of(*c)]) {
      call(*c, c->params.at(s), workspace_.data());
    } else {
      run_own(s);
    }
    const double time = now();
    out.step_s.push_back(time - last);
    last = time;
  }
  out.whole = {.total_s = std::max(last - start, 1e-9),
               .wait_s = 1e-9 * static_cast<double>(run_queue_.elapsed_wait_ns())};
  return out;
}

// Every candidate is drawn into one of two runs: it meets other neighbours in each pair, and is
// timed as often as the kernel that it replaces. Those that belong together share one draw.
StampedPair ModelStand::stamped_pair(bool warm, const Announce& announce) {
  StampedPair out;
  const bool all_first = rng_.chance(0.5);
  for (const Placed& c : candidates_)
    out.first.push_back(c.run->job.trial.together ? all_first : rng_.chance(0.5));
  std::vector<bool> placed = out.first;
  for (StampedRun& run : out.runs) {
    announce(Kind::kTiming, 0);
    if (warm) stamped(placed);
    run = stamped(placed);
    placed.flip();
  }
  return out;
}

void ModelStand::time_all(const Announce& announce, RunReply* reply) {
  const MeasureOptions& options = parts_.options;
  const bool final = std::any_of(candidates_.begin(), candidates_.end(), [](const Placed& c) {
    return c.good() && c.run->job.trial.final;
  });
  const int wanted = std::max(options.min_samples, options.max_samples / (final ? 1 : 2));
  const bool warm = run_s_ < kLongRun;
  const double limit_s = 4.0 * wanted * (warm ? 2 : 1) * run_s_ + options.trial_limit_s;
  const Clock::time_point start = Clock::now();
  std::vector<StampedPair> pairs;
  const auto clean = [&] {
    return std::count_if(pairs.begin(), pairs.end(),
                         [](const StampedPair& pair) { return pair.is_clean(); });
  };
  const double before_s = calibration_.run(kCalibrationRuns);
  while (std::ssize(pairs) < options.min_samples ||
         (clean() < wanted && seconds_since(start) < limit_s)) {
    pairs.push_back(stamped_pair(warm, announce));
  }
  const double calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  const std::vector<const StampedPair*> kept = kept_pairs(pairs, options.min_samples);
  const auto all = static_cast<double>(pairs.size());
  reply->waiting_share = (all - static_cast<double>(clean())) / all;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Placed& c = candidates_[i];
    if (!c.good()) continue;
    // Seconds of one call: places of a task count alike.
    const auto seconds = [&](const StampedRun& run) {
      double sum = 0;
      for (const auto& [step, params] : c.params) sum += run.step_s[step];
      return sum / static_cast<double>(c.params.size());
    };
    std::vector<double> own;
    for (const StampedPair* pair : kept) {
      c.measurement->samples_s.push_back(seconds(pair->with(i)));
      own.push_back(seconds(pair->without(i)));
    }
    c.measurement->default_s = median(own);
    c.measurement->calibration_s = calibration_s;
    c.measurement->disturbed = run_queue_.available() && clean() < options.min_samples;
  }
}

void ModelStand::run(const RunRequest& request, const Announce& announce, RunReply* reply) {
  candidates_.clear();
  candidates_.reserve(request.items.size());  // pointers to them are kept
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    Measurement& m = reply->measurements[i];
    Result<Placed> loaded = load(request.items[i]);
    if (!loaded.ok()) {
      m.outcome = Outcome::kRunError;
      m.reason = loaded.error().message;
      continue;
    }
    candidates_.push_back(std::move(loaded).value());
    Placed& c = candidates_.back();
    c.item = i;
    c.measurement = &m;
    const bool taken = std::any_of(c.params.begin(), c.params.end(),
                                   [&](const auto& place) { return at_[place.first] != nullptr; });
    if (taken) c.fail(Outcome::kInvalidStatic, "its place has another candidate");
    for (const auto& [step, params] : c.params)
      if (!taken) at_[step] = &c;
  }
  check_all(announce);
  if (std::any_of(candidates_.begin(), candidates_.end(), [](const Placed& c) { return c.good(); }))
    time_all(announce, reply);
  check_all(announce);
  reply->damaged = repeatable_ && outputs() != outputs_;
  reply->last = reply->damaged;
  std::fill(at_.begin(), at_.end(), nullptr);
  candidates_.clear();
  double bytes = 0;
  for (const auto& [name, tensor] : packed_) bytes += static_cast<double>(tensor.bytes());
  if (bytes > kMostPacked * static_cast<double>(model_.constant_bytes)) packed_.clear();
}

}  // namespace

Result<std::shared_ptr<const PlacedModel>> place_model(const graph::Graph& graph,
                                                       const task::TaskGraph& tasks,
                                                       const std::vector<std::string>& keys,
                                                       std::vector<HostTensor> inputs,
                                                       const target::Target& target,
                                                       const exec::ModelOptions& options) {
  auto placed = std::make_shared<PlacedModel>();
  for (std::size_t id = 0; id < graph.values.size(); ++id) {
    const HostTensor* constant = graph.constant(static_cast<graph::ValueId>(id));
    if (constant != nullptr) placed->constants.emplace(graph.values[id].name, *constant);
  }
  placed->inputs = std::move(inputs);
  for (const task::Task& task : tasks.tasks) {
    const auto known = std::find(keys.begin(), keys.end(), task.key);
    placed->tasks.push_back(static_cast<std::size_t>(known - keys.begin()));
  }
  TESSERA_TRY(placed->model, exec::compile_model(graph, tasks, target, options));
  return std::shared_ptr<const PlacedModel>(std::move(placed));
}

std::function<Result<std::unique_ptr<InPlaceStand>>(const StandParts& parts)> in_place_stand(
    std::shared_ptr<const PlacedModel> model) {
  return [model](const StandParts& parts) -> Result<std::unique_ptr<InPlaceStand>> {
    auto stand = std::make_unique<ModelStand>(parts, model);
    TESSERA_DO(stand->set_up());
    return std::unique_ptr<InPlaceStand>(std::move(stand));
  };
}

}  // namespace tessera::measure
