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
#include "tessera/support/ceil_div.h"
#include "tessera/support/clock.h"
#include "tessera/support/quantile.h"
#include "tessera/support/rng.h"
#include "tessera/trials/measure/calibration.h"
#include "tessera/trials/measure/guarded_buffer.h"
#include "tessera/trials/measure/task_data.h"
#include "tessera/trials/measure/turns.h"

namespace tessera::measure {
namespace {

constexpr int kCalibrationRuns = 5;  // before and again after the runs
// A model that takes longer fills the caches for itself; others run once before they are timed.
constexpr double kLongRun = 0.05;
// Packed constants that are kept for the next candidates, times those of the model.
constexpr double kMostPacked = 3;
// Timed runs of the same candidates in a row: the run that warms up serves all of them.
constexpr int kRunsInARow = 2;
// Of the time that quiet runs would take: where others disturb them, there are more.
constexpr double kMostLonger = 2;

bool runs_warm(double run_s) { return run_s < kLongRun; }
int row_of(double run_s) { return runs_warm(run_s) ? kRunsInARow : 1; }
int wanted_samples(bool final, const MeasureOptions& options) {
  return std::max(options.min_samples, options.max_samples / (final ? 1 : 2));
}

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
  bool lost = false;                                 // clearly slower: it is not timed any more

  bool good() const { return measure::is_timed(measurement->outcome); }
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
  Result<void*> constant(graph::ValueId id, const std::string& layout, const Shape& shape);
  void reserve_workspace(std::int64_t bytes);
  double now() const {
    return parts_.options.hooks.clock ? parts_.options.hooks.clock()
                                      : seconds_between(Clock::time_point(), Clock::now());
  }
  std::int32_t call(const Placed& c, std::vector<void*>& params, void* workspace);
  void run_own(std::size_t step);
  void check(Placed& c, std::size_t step);
  void check_all(const Announce& announce);
  // By step, null: the model's own kernel.
  StampedRun stamped(const std::vector<Placed*>& placed);
  // Of the candidates that are still timed, by task.
  std::vector<Turns> turns() const;
  void run_round(const Announce& announce);
  void take_times(const StampedRun& run, const std::vector<Turns>& places,
                  const std::vector<std::size_t>& drawn);
  void drop_losers();
  bool timed_enough(int wanted) const;
  void time_all(const Announce& announce, RunReply* reply);
  void tell_times();
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
  std::map<std::pair<graph::ValueId, std::string>, HostTensor> packed_;  // by value and layout
  std::vector<Placed> candidates_;
  std::vector<std::vector<std::size_t>> at_;                 // by step: candidates
  std::vector<std::vector<TimedCall>> times_;                // by candidate
  std::map<std::size_t, std::vector<TimedCall>> own_times_;  // by task: of the model's own kernel
  std::int64_t runs_ = 0, clean_runs_ = 0;                   // that were timed, of a request
  std::string outputs_;                                      // of the model's own kernels
  bool repeatable_ = false;                                  // they are the same bytes in every run
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
  at_.resize(model_.steps.size());
  TESSERA_DO(runner_.run());  // checks the inputs, too
  stamped({});
  outputs_ = outputs();
  run_s_ = stamped({}).whole.total_s;
  repeatable_ = outputs() == outputs_;
  calibration_.run(4 * kCalibrationRuns);
  return {};
}

Result<void*> ModelStand::constant(graph::ValueId id, const std::string& layout,
                                   const Shape& shape) {
  HostTensor& packed = packed_[{id, layout}];
  if (packed.data() == nullptr) {
    const HostTensor plain = placed_->constants.at(id).reshaped(shape);
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
      TESSERA_TRY(params[i],
                  constant(placed_->reads.at({s, i}), layout, out.dag->inputs[i].buffer->shape));
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

// A run of the model's own kernels, with the candidates checked behind the kernel of their place.
void ModelStand::check_all(const Announce& announce) {
  const runtime::ThreadPool::Session session(pool_);
  for (std::size_t s = 0; s < at_.size(); ++s) {
    run_own(s);
    for (const std::size_t number : at_[s]) {
      Placed& c = candidates_[number];
      if (!c.good()) continue;
      announce(Kind::kCalling, c.item);
      check(c, s);
    }
  }
}

StampedRun ModelStand::stamped(const std::vector<Placed*>& placed) {
  const runtime::ThreadPool::Session session(pool_);
  StampedRun out;
  out.step_s.reserve(at_.size());
  (void)run_queue_.elapsed_wait_ns();
  const double start = now();
  double last = start;
  for (std::size_t s = 0; s < at_.size(); ++s) {
    Placed* c = placed.empty() ? nullptr : placed[s];
    if (c != nullptr) {
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

std::vector<Turns> ModelStand::turns() const {
  std::map<std::size_t, Turns> by_task;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    const Placed& c = candidates_[i];
    if (!c.good() || c.lost) continue;
    Turns& turns = by_task[c.run->job.task];
    turns.candidates.push_back(i);
    turns.together = c.run->job.trial.together;
  }
  std::vector<Turns> out;
  for (auto& [task, turns] : by_task) out.push_back(std::move(turns));
  return out;
}

// Seconds of one call: places of a task count alike.
void ModelStand::take_times(const StampedRun& run, const std::vector<Turns>& places,
                            const std::vector<std::size_t>& drawn) {
  TimedCall timed;
  timed.clean = parts_.options.contended || runtime::is_clean(run.whole);
  timed.share_waited = run.whole.wait_s / run.whole.total_s;
  ++runs_;
  clean_runs_ += timed.clean ? 1 : 0;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const Placed& any = candidates_[places[p].candidates.front()];
    timed.seconds = 0;
    for (const auto& [step, params] : any.params) timed.seconds += run.step_s[step];
    timed.seconds /= static_cast<double>(any.params.size());
    if (drawn[p] == kOwnKernel) {
      own_times_[any.run->job.task].push_back(timed);
    } else {
      times_[drawn[p]].push_back(timed);
    }
  }
}

void ModelStand::run_round(const Announce& announce) {
  const std::vector<Turns> places = turns();
  for (const std::vector<std::size_t>& drawn : draw_round(places, rng_)) {
    std::vector<Placed*> placed(at_.size(), nullptr);
    for (const std::size_t number : drawn) {
      if (number == kOwnKernel) continue;
      for (const auto& [step, params] : candidates_[number].params)
        placed[step] = &candidates_[number];
    }
    if (runs_warm(run_s_)) {
      announce(Kind::kTiming, 0);
      stamped(placed);
    }
    for (int i = 0; i < row_of(run_s_); ++i) {
      announce(Kind::kTiming, 0);
      take_times(stamped(placed), places, drawn);
    }
  }
}

// All its clean times are clearly above what the model's own kernel takes, and not in one round
// alone: of a kernel of microseconds that is noise.
void ModelStand::drop_losers() {
  const MeasureOptions& options = parts_.options;
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Placed& c = candidates_[i];
    if (!c.good() || c.lost || c.run->job.trial.final) continue;
    const std::vector<double> own = kept_seconds(own_times_[c.run->job.task], 1);
    const auto clean = std::count_if(times_[i].begin(), times_[i].end(),
                                     [](const TimedCall& t) { return t.clean; });
    if (own.empty() || clean <= kRunsInARow) continue;
    const double limit_s = options.loser_factor * median(own);
    c.lost = std::all_of(times_[i].begin(), times_[i].end(),
                         [&](const TimedCall& t) { return !t.clean || t.seconds > limit_s; });
  }
}

bool ModelStand::timed_enough(int wanted) const {
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    if (!candidates_[i].good() || candidates_[i].lost) continue;
    const auto clean = std::count_if(times_[i].begin(), times_[i].end(),
                                     [](const TimedCall& t) { return t.clean; });
    if (clean < wanted) return false;
  }
  return true;
}

// Candidates of a task take turns in its places; in every round they meet other neighbours, and
// the model's own kernel is timed beside them.
void ModelStand::time_all(const Announce& announce, RunReply* reply) {
  const MeasureOptions& options = parts_.options;
  const bool final = std::any_of(candidates_.begin(), candidates_.end(), [](const Placed& c) {
    return c.good() && c.run->job.trial.final;
  });
  const int wanted = wanted_samples(final, options);
  const int least = static_cast<int>(ceil_div(options.min_samples, row_of(run_s_)));
  std::size_t most = 1;
  for (const Turns& t : turns()) most = std::max(most, t.candidates.size());
  const double limit_s =
      kMostLonger * runs_in_place(most, final, run_s_, options) * run_s_ + options.trial_limit_s;
  const Clock::time_point start = Clock::now();
  times_.assign(candidates_.size(), {});
  own_times_.clear();
  runs_ = clean_runs_ = 0;
  const double before_s = calibration_.run(kCalibrationRuns);
  for (int round = 0; round < least || (!timed_enough(wanted) && seconds_since(start) < limit_s);
       ++round) {
    run_round(announce);
    drop_losers();
    if (turns().empty()) break;
  }
  const double calibration_s = (before_s + calibration_.run(kCalibrationRuns)) / 2;
  for (Placed& c : candidates_) c.measurement->calibration_s = c.good() ? calibration_s : 0;
  reply->waiting_share =
      runs_ > 0 ? static_cast<double>(runs_ - clean_runs_) / static_cast<double>(runs_) : 0;
  tell_times();
}

void ModelStand::tell_times() {
  const auto least = static_cast<std::size_t>(parts_.options.min_samples);
  for (std::size_t i = 0; i < candidates_.size(); ++i) {
    Placed& c = candidates_[i];
    if (!c.good()) continue;
    Measurement& m = *c.measurement;
    m.samples_s = kept_seconds(times_[i], least);
    const std::vector<double> own = kept_seconds(own_times_[c.run->job.task], least);
    m.default_s = own.empty() ? 0 : median(own);
    if (c.lost) m.outcome = Outcome::kCensored;
    const auto clean = static_cast<std::size_t>(std::count_if(
        times_[i].begin(), times_[i].end(), [](const TimedCall& t) { return t.clean; }));
    m.disturbed = run_queue_.available() && clean < std::min(least, times_[i].size());
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
    for (const auto& [step, params] : c.params) at_[step].push_back(candidates_.size() - 1);
  }
  check_all(announce);
  if (std::any_of(candidates_.begin(), candidates_.end(), [](const Placed& c) { return c.good(); }))
    time_all(announce, reply);
  check_all(announce);
  reply->damaged = repeatable_ && outputs() != outputs_;
  reply->last = reply->damaged;
  for (std::vector<std::size_t>& here : at_) here.clear();
  candidates_.clear();
  double bytes = 0;
  for (const auto& [name, tensor] : packed_) bytes += static_cast<double>(tensor.bytes());
  if (bytes > kMostPacked * static_cast<double>(model_.constant_bytes)) packed_.clear();
}

// A step for each kernel and each operator of the host, as the compiled model has them.
void add_constants(const graph::Graph& graph, const task::TaskGraph& tasks, PlacedModel* placed) {
  std::map<graph::ValueId, graph::ValueId> reshaped;
  std::size_t step = 0;
  for (std::size_t g = 0; g < tasks.groups.size(); ++g) {
    const task::Group& group = tasks.groups[g];
    if (group.kind == task::GroupKind::kAlias) reshaped[group.outputs.at(0)] = group.inputs.at(0);
    if (group.kind == task::GroupKind::kHost) ++step;
    if (group.kind != task::GroupKind::kKernel) continue;
    const std::vector<graph::ValueId>& params =
        tasks.calls[static_cast<std::size_t>(tasks.call_of_group[g])].params;
    for (std::size_t i = 0; i < params.size(); ++i) {
      graph::ValueId id = params[i];
      for (auto of = reshaped.find(id); of != reshaped.end(); of = reshaped.find(id))
        id = of->second;
      const HostTensor* constant = graph.constant(id);
      if (constant == nullptr) continue;
      placed->reads[{step, i}] = id;
      placed->constants.emplace(id, *constant);
    }
    ++step;
  }
}

}  // namespace

int runs_in_place(std::size_t turns, bool final, double model_s, const MeasureOptions& options) {
  const int row = row_of(model_s);
  const auto rounds = static_cast<int>(ceil_div(wanted_samples(final, options), row));
  return rounds * static_cast<int>(turns + 1) * (row + (runs_warm(model_s) ? 1 : 0));
}

Result<std::shared_ptr<const PlacedModel>> place_model(const graph::Graph& graph,
                                                       const task::TaskGraph& tasks,
                                                       const std::vector<std::string>& keys,
                                                       std::vector<HostTensor> inputs,
                                                       const target::Target& target,
                                                       const exec::ModelOptions& options) {
  auto placed = std::make_shared<PlacedModel>();
  add_constants(graph, tasks, placed.get());
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
