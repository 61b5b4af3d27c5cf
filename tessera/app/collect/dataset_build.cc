#include "tessera/app/collect/dataset_build.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "tessera/app/collect/dataset_sample.h"
#include "tessera/app/tune/trial_loop.h"
#include "tessera/backend/kernel/check_output.h"
#include "tessera/backend/kernel/random_inputs.h"
#include "tessera/machine/runtime/object_loader.h"
#include "tessera/support/clock.h"
#include "tessera/trials/measure/build_pool.h"
#include "tessera/trials/measure/bundle.h"

namespace tessera::app {
namespace {

constexpr const char* kProducer = "tessera 0.1.0";
constexpr std::uint64_t kInputSeed = 1;
constexpr std::int64_t kSampledPoints = 256;  // of the interpreter, where a task is large
constexpr std::size_t kMostPoints = 1024;     // kept of an output

// Without the integers that rounding decides, another of which may be right too; all of them where
// that leaves none.
kernel::Reference decided(kernel::Reference all, double tolerance) {
  if (all.before.empty()) return all;
  kernel::Reference out;
  out.scale = all.scale;
  for (std::size_t i = 0; i < all.points.size(); ++i) {
    const double border = std::floor(all.before[i]) + 0.5;
    if (std::abs(all.before[i] - border) <= tolerance * all.before_scale) continue;
    out.points.push_back(all.points[i]);
    out.values.push_back(all.values[i]);
  }
  return out.points.empty() ? all : out;
}

// The ends and, between them, some at random.
measure::BundleOutput thinned(const kernel::Reference& all) {
  measure::BundleOutput out{all.points, all.values};
  if (all.points.size() <= kMostPoints) return out;
  Rng rng(kInputSeed);
  out = {};
  for (std::size_t i = 0; i < kMostPoints; ++i) {
    const std::size_t at = i == 0   ? 0
                           : i == 1 ? all.points.size() - 1
                                    : static_cast<std::size_t>(rng.below(std::ssize(all.points)));
    out.points.push_back(all.points[at]);
    out.values.push_back(all.values[at]);
  }
  return out;
}

Result<measure::BundleTask> describe(const SampledTask& task, const te::Dag& dag) {
  measure::BundleTask out{task.key, task.name, task.definition, task.flops, task.bytes, {}};
  const std::vector<HostTensor> inputs = kernel::random_inputs(dag, kInputSeed);
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    if (dag.outputs[o].size() == 0) {
      out.outputs.emplace_back();
      continue;
    }
    TESSERA_TRY(const kernel::Reference reference,
                kernel::reference(dag, inputs, o, kSampledPoints, kInputSeed));
    out.outputs.push_back(thinned(decided(reference, kernel::tolerance(dag, o))));
  }
  return out;
}

class ShardBuild {
 public:
  ShardBuild(const BuildOptions& options, const std::function<bool(const BuildProgress&)>& progress)
      : options_(options), callback_(progress), start_(Clock::now()) {}

  Result<BuildResultOfShard> run() {
    if (options_.jobs < 1 || !(options_.timeout_s > 0)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{} compilers with {} seconds a candidate: at least 1, and some time",
                        options_.jobs, options_.timeout_s);
    }
    TESSERA_TRY(manifest_, read_manifest(options_.folder));
    if (options_.shard >= manifest_.shards) {
      return make_error(ErrorCode::kInvalidArgument, "there is no shard {} of {}", options_.shard,
                        manifest_.shards);
    }
    TESSERA_TRY(target_, target::target_from_text(manifest_.target));
    if (target_.is_gpu()) {
      return make_error(ErrorCode::kUnsupported,
                        "bundles hold code of processors: on the machine with the GPU, `tessera "
                        "dataset collect --target {}` draws, builds and measures in one",
                        target::to_text(target_.kind));
    }
    TESSERA_TRY(const auto sample, read_sample(options_.folder, options_.shard));
    TESSERA_DO(read_tasks(sample));
    measure::BundleHeader header;
    header.target = manifest_.target;
    header.threads = manifest_.threads;
    header.input_seed = kInputSeed;
    header.producer = kProducer;
    TESSERA_TRY(header.sample, sample_digest(options_.folder, options_.shard));
    TESSERA_TRY(measure::BundleWriter writer,
                measure::BundleWriter::open(bundle_path(options_.folder, options_.shard), header));
    writer_ = &writer;
    start_loop();
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      TESSERA_TRY(const bool go_on, build_task(t));
      if (!go_on) return result_;
    }
    if (lost_ > 0) {
      return make_error(ErrorCode::kUnavailable,
                        "{} candidates were not built because others ended the compiler: run it "
                        "again",
                        lost_);
    }
    TESSERA_DO(writer.finish());
    result_.finished = true;
    return result_;
  }

 private:
  Result<void> read_tasks(const std::vector<SampledCandidate>& sample) {
    std::map<std::string, std::size_t> index;
    for (const SampledTask& t : manifest_.tasks) {
      if (t.shard != options_.shard) continue;
      Result<te::Dag> dag = te::dag_from_text(t.definition);
      if (!dag.ok()) return dag.error().with_context("task " + t.name);
      index[t.key] = tasks_.size();
      tasks_.push_back(t);
      dags_.push_back(std::move(dag).value());
    }
    candidates_.resize(tasks_.size());
    for (const SampledCandidate& c : sample) {
      const auto found = index.find(c.task);
      if (found == index.end()) {
        return make_error(ErrorCode::kInvalidArgument, "shard {} has a task that is not in {}",
                          options_.shard, "manifest.json");
      }
      candidates_[found->second].push_back(c);
    }
    progress_.candidates = std::ssize(sample);
    result_.tasks = tasks_.size();
    return {};
  }

  // False: stopped.
  Result<bool> build_task(std::size_t t) {
    const std::vector<std::string>& keys = writer_->task_keys();
    if (t < keys.size() && keys[t] != tasks_[t].key) {
      return make_error(ErrorCode::kInvalidArgument, "{} is of another sample",
                        bundle_path(options_.folder, options_.shard));
    }
    progress_.task = tasks_[t].name;
    if (t >= keys.size()) {
      if (!report()) return false;
      Result<measure::BundleTask> task = describe(tasks_[t], dags_[t]);
      if (!task.ok()) return task.error().with_context("task " + tasks_[t].name);
      TESSERA_DO(writer_->add(*task));
    }
    for (const SampledCandidate& c : candidates_[t]) {
      if (writer_->has(t, c.trial)) {
        ++result_.earlier;
        ++progress_.done;
        continue;
      }
      TESSERA_DO(submit(t, c));
      while (loop_->pending() >= static_cast<std::size_t>(options_.jobs)) TESSERA_DO(collect());
      if (!report()) return false;
    }
    while (loop_->pending() > 0) TESSERA_DO(collect());
    return report();
  }

  void start_loop() {
    std::vector<measure::MeasuredTask> measured;
    std::vector<LoopTask> loop_tasks;
    for (std::size_t t = 0; t < tasks_.size(); ++t) {
      measured.push_back({tasks_[t].key, dags_[t]});
      loop_tasks.push_back({tasks_[t].key});
    }
    loop_ = std::make_unique<TrialLoop>(
        std::make_unique<measure::BuildPool>(measured, target_, options_.jobs, options_.timeout_s),
        std::move(loop_tasks), /*repeats=*/0, &records_,
        [this](const Attempt& a, const measure::Measurement& m, bool) { return take(a, m); });
  }

  Result<void> submit(std::size_t t, const SampledCandidate& c) {
    Attempt attempt;
    attempt.task = t;
    Result<schedule::Schedule> steps = schedule::schedule_from_text(c.schedule);
    if (!steps.ok()) return steps.error().with_context("task " + tasks_[t].name);
    attempt.steps = std::move(*steps);
    attempt.group = static_cast<std::uint64_t>(&c - candidates_[t].data());
    loop_->submit({std::move(attempt)});
    return {};
  }

  Result<void> collect() {
    loop_->collect(0.25);
    TESSERA_DO(kept_);
    if (const auto trouble = loop_->trouble()) {
      return make_error(ErrorCode::kUnavailable, "{}", trouble->reason);
    }
    return {};
  }

  // Bundles keep it, databases do not.
  std::optional<std::int64_t> take(const Attempt& a, const measure::Measurement& m) {
    const bool lost = m.outcome == measure::Outcome::kWorkerLost;
    lost_ += lost ? 1 : 0;
    if (!lost && kept_.ok()) kept_ = keep(a.task, candidates_[a.task][a.group], m);
    return std::nullopt;
  }

  Result<void> keep(std::size_t t, const SampledCandidate& c, const measure::Measurement& m) {
    measure::BundleItem item;
    item.task = t;
    item.trial = c.trial;
    item.seed = manifest_.seed;
    item.candidate = c.candidate;
    item.schedule = c.schedule;
    item.outcome = m.outcome;
    item.built = std::move(*m.built);
    if (item.outcome == measure::Outcome::kOk) {
      const Result<void> loads =
          runtime::check_object(item.built.object, target_.arch, item.built.symbol);
      if (!loads.ok()) {
        item.outcome = measure::Outcome::kBuildError;
        item.built.error = loads.error().message;
        item.built.object.clear();
      }
    }
    const bool failed = item.outcome != measure::Outcome::kOk;
    ++(failed ? result_.failed : result_.built);
    progress_.failed += failed ? 1 : 0;
    ++progress_.done;
    return writer_->add(item);
  }

  bool report() {
    progress_.elapsed_s = seconds_since(start_);
    return !callback_ || callback_(progress_);
  }

  const BuildOptions& options_;
  const std::function<bool(const BuildProgress&)>& callback_;
  Clock::time_point start_;
  SampleManifest manifest_;
  target::Target target_;
  std::vector<SampledTask> tasks_;  // of the shard
  std::vector<te::Dag> dags_;
  std::vector<std::vector<SampledCandidate>> candidates_;  // by task
  measure::BundleWriter* writer_ = nullptr;
  TrialRecords records_;  // of no database
  std::unique_ptr<TrialLoop> loop_;
  Result<void> kept_;  // what went wrong with the bundle
  int lost_ = 0;
  BuildProgress progress_;
  BuildResultOfShard result_;
};

}  // namespace

Result<BuildResultOfShard> build_dataset(
    const BuildOptions& options, const std::function<bool(const BuildProgress&)>& progress) {
  return ShardBuild(options, progress).run();
}

}  // namespace tessera::app
