#include "tessera/trials/runner/run_bundles.h"

#include <ctime>
#include <memory>

#include <fmt/ranges.h>

#include "tessera/machine/target/features.h"
#include "tessera/support/clock.h"
#include "tessera/support/hash.h"
#include "tessera/trials/measure/bundle.h"
#include "tessera/trials/measure/run_process.h"
#include "tessera/trials/runner/record_file.h"

namespace tessera::runner {
namespace {

constexpr const char* kPolicy = "sample";
constexpr int kMostLost = 16;  // candidates in a row that lose their workers
constexpr std::int64_t kMostWorkspace = std::int64_t{1} << 36;

// One bundle with its tasks as they are run.
struct Loaded {
  std::string path;
  measure::Bundle bundle;
  target::Target target;
  std::vector<te::Dag> dags;
  std::vector<measure::Expected> expected;  // by task
  measure::MeasureOptions measure;
  std::string machine;  // of its records
};

Result<void> check_machine(const target::Target& t) {
  if (target::runs_on_host(t)) return {};
  const target::Target& host = target::host();
  std::string lacking;
  if (t.arch != host.arch) {
    lacking = "its architecture is another";
  } else {
    for (const std::string_view f : target::present_features(t.features)) {
      if (!target::has_feature(host.features, f)) lacking += fmt::format(" {}", f);
    }
    lacking = "it lacks" + lacking;
  }
  return make_error(ErrorCode::kUnsupported, "code for {} does not run on this machine: {}", t.name,
                    lacking);
}

// What a record's target says of a machine, where it is not this one.
std::vector<std::string> differences(const target::Target& t, const target::Target& here) {
  std::vector<std::string> out;
  const auto compare = [&](const char* what, const auto& there, const auto& found) {
    if (there != found) out.push_back(fmt::format("{} {} (here {})", what, there, found));
  };
  compare("cpu", t.cpu, here.cpu);
  compare("vector bytes", t.vector_bytes, here.vector_bytes);
  compare("l1", t.l1_bytes, here.l1_bytes);
  compare("l2", t.l2_bytes, here.l2_bytes);
  compare("l3", t.l3_bytes, here.l3_bytes);
  compare("line", t.line_bytes, here.line_bytes);
  return out;
}

// The target of the records: that of the space, with the machine that ran where it is another, so
// that the times of two machines are never taken for those of one.
Result<std::string> machine_text(const target::Target& t, const std::string& text,
                                 bool any_machine) {
  const target::Target& here = target::host();
  const std::vector<std::string> others = differences(t, here);
  if (others.empty()) return text;
  if (any_machine) {
    return fmt::format("{} ran={},{},{},{},{},{},{}", text, here.cpu, here.vector_bytes, here.cores,
                       here.l1_bytes, here.l2_bytes, here.l3_bytes, here.line_bytes);
  }
  return make_error(ErrorCode::kUnsupported,
                    "candidates were drawn for another machine: {}; sample with --target "
                    "\"$(tessera-runner --machine)\", or run with --any-machine",
                    fmt::join(others, ", "));
}

Result<measure::Expected> expected_of(const te::Dag& dag, const measure::BundleTask& task) {
  measure::Expected out;
  const Error damaged =
      make_error(ErrorCode::kInvalidArgument, "its outputs are not those of its definition");
  if (task.outputs.size() != dag.outputs.size()) return damaged;
  for (std::size_t o = 0; o < dag.outputs.size(); ++o) {
    const ir::Buffer& b = dag.outputs[o];
    const measure::BundleOutput& want = task.outputs[o];
    if (want.points.size() != want.values.size()) return damaged;
    if (want.points.empty() != (b.size() == 0)) return damaged;
    const auto n = static_cast<std::int64_t>(want.points.size());
    HostTensor values(b->dtype, want.points.empty() ? b->shape : Shape{n});
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t point = want.points[static_cast<std::size_t>(i)];
      if (point < 0 || point >= b.size()) return damaged;
      values.set_float(i, want.values[static_cast<std::size_t>(i)]);
    }
    out.outputs.push_back(std::move(values));
    out.points.push_back(want.points);
  }
  return out;
}

Result<std::unique_ptr<Loaded>> load(const std::string& path, const RunnerOptions& options) {
  TESSERA_TRY(measure::Bundle bundle, measure::Bundle::open(path));
  auto loaded = std::make_unique<Loaded>(Loaded{path, std::move(bundle), {}, {}, {}, {}, {}});
  const measure::BundleHeader& header = loaded->bundle.header();
  TESSERA_TRY(loaded->target, target::target_from_text(header.target));
  if (const Result<void> runs = check_machine(loaded->target); !runs.ok()) {
    return runs.error().with_context(path);
  }
  Result<std::string> machine = machine_text(loaded->target, header.target, options.any_machine);
  if (!machine.ok()) return machine.error().with_context(path);
  loaded->machine = std::move(machine).value();
  for (const measure::BundleTask& task : loaded->bundle.tasks()) {
    Result<te::Dag> dag = te::dag_from_text(task.definition);
    if (!dag.ok()) return dag.error().with_context(fmt::format("{}: task {}", path, task.name));
    Result<measure::Expected> expected = expected_of(*dag, task);
    if (!expected.ok()) {
      return expected.error().with_context(fmt::format("{}: task {}", path, task.name));
    }
    loaded->dags.push_back(std::move(dag).value());
    loaded->expected.push_back(std::move(expected).value());
  }
  loaded->measure = options.measure;
  loaded->measure.threads = options.threads > 0 ? options.threads : header.threads;
  loaded->measure.seed = header.input_seed;
  if (loaded->measure.threads < 1) {
    return make_error(ErrorCode::kInvalidArgument, "{}: {} threads", path, header.threads);
  }
  return loaded;
}

bool makes_sense(const measure::BundleItem& item, const te::Dag& dag) {
  const measure::Built& b = item.built;
  return b.shared_bytes >= 0 && b.worker_bytes >= 0 && b.shared_bytes < kMostWorkspace &&
         b.worker_bytes < kMostWorkspace &&
         b.layouts.size() <= dag.inputs.size() + dag.outputs.size();
}

class Run {
 public:
  Run(const RunnerOptions& options, const RunnerCallbacks& callbacks)
      : options_(options), callbacks_(callbacks), start_(Clock::now()) {}

  Result<RunnerResult> run() {
    if (options_.threads < 0 || !(options_.budget_s >= 0)) {
      return make_error(ErrorCode::kInvalidArgument, "{} threads, a budget of {} seconds",
                        options_.threads, options_.budget_s);
    }
    std::vector<std::unique_ptr<Loaded>> bundles;
    for (const std::string& path : options_.bundles) {
      TESSERA_TRY(std::unique_ptr<Loaded> loaded, load(path, options_));
      progress_.candidates += static_cast<std::int64_t>(loaded->bundle.size());
      bundles.push_back(std::move(loaded));
    }
    TESSERA_TRY(RecordFile file, RecordFile::open(options_.output));
    file_ = &file;
    for (const auto& loaded : bundles) {
      if (result_.stopped_by.empty()) TESSERA_DO(run_bundle(*loaded));
    }
    if (result_.stopped_by.empty()) result_.stopped_by = "done";
    return result_;
  }

 private:
  Result<void> run_bundle(const Loaded& loaded) {
    measure::RunProcess process(loaded.dags, loaded.target, loaded.measure,
                                [&](std::size_t task, auto&&...) -> Result<measure::Expected> {
                                  return loaded.expected[task];
                                });
    progress_.bundle = loaded.path;
    for (std::size_t i = 0; i < loaded.bundle.size(); ++i) {
      if (stopped()) return {};
      TESSERA_TRY(const measure::BundleItem item, loaded.bundle.item(i));
      if (!makes_sense(item, loaded.dags[item.task])) {
        return make_error(ErrorCode::kInvalidArgument, "{}: is damaged", loaded.path);
      }
      const measure::BundleTask& task = loaded.bundle.tasks()[item.task];
      record::Record r = record_of(item, task, loaded);
      if (file_->has(r)) {
        ++result_.earlier;
        ++progress_.done;
        continue;
      }
      TESSERA_DO(measure(item, process, &r));
      TESSERA_DO(keep(std::move(r), task, loaded));
    }
    return {};
  }

  static record::Record record_of(const measure::BundleItem& item, const measure::BundleTask& task,
                                  const Loaded& loaded) {
    record::Record r;
    r.task = task.key;
    r.target = loaded.machine;
    r.threads = loaded.measure.threads;
    r.candidate = item.candidate;
    r.schedule = item.schedule;
    r.schedule_digest = to_hex(hash_bytes(item.schedule));
    r.outcome = measure::to_text(item.outcome);
    r.reason = item.built.error;
    r.build_ms = item.built.build_ms;
    r.policy = kPolicy;
    r.seed = item.seed;
    r.trial = item.trial;
    return r;
  }

  // Runs what was built. A worker that goes away for another reason gets a second chance.
  Result<void> measure(const measure::BundleItem& item, measure::RunProcess& process,
                       record::Record* r) {
    if (item.outcome != measure::Outcome::kOk) return {};
    measure::RunItem run;
    run.job.trial.id = static_cast<std::uint64_t>(item.trial);
    run.job.task = item.task;
    run.job.trial.incumbent_s = file_->best_seconds(r->task, r->threads);
    run.built = item.built;
    measure::Measurement m = process.run(run);
    if (m.outcome == measure::Outcome::kWorkerLost) m = process.run(run);
    lost_in_a_row_ = m.outcome == measure::Outcome::kWorkerLost ? lost_in_a_row_ + 1 : 0;
    if (lost_in_a_row_ >= kMostLost) {
      return make_error(ErrorCode::kUnavailable, "the workers that measure keep going away: {}",
                        m.reason);
    }
    r->outcome = measure::to_text(m.outcome);
    r->reason = m.reason;
    r->samples_s = m.samples_s;
    r->seconds = measure::is_timed(m.outcome) ? m.seconds() : 0;
    r->calibration_s = m.calibration_s;
    r->quiet = measure::is_timed(m.outcome) && !m.disturbed;
    return {};
  }

  Result<void> keep(record::Record r, const measure::BundleTask& task, const Loaded& loaded) {
    ++progress_.done;
    // Not the candidate's: the next call tries it again.
    if (r.outcome == measure::to_text(measure::Outcome::kWorkerLost)) return {};
    if (session_ == 0) TESSERA_DO(begin_session(loaded));
    TESSERA_DO(file_->append(
        record::TaskRow{task.key, task.name, task.definition, task.flops, task.bytes}));
    r.session = session_;
    r.unix_time = std::time(nullptr);
    ++result_.records;
    if (r.seconds > 0) ++result_.valid;
    TESSERA_DO(file_->append(r));
    if (!callbacks_.progress) return {};
    progress_.task = task.name;
    progress_.records = result_.records;
    progress_.valid = result_.valid;
    progress_.elapsed_s = elapsed_s();
    callbacks_.progress(progress_);
    return {};
  }

  // What measured: the machine's own description, not that which the code was built for.
  Result<void> begin_session(const Loaded& loaded) {
    record::SessionRow row;
    session_ = row.id = file_->next_session();
    row.model = fmt::format("{}", fmt::join(options_.bundles, " "));
    row.target = target::to_text(target::host());
    row.options = options_.command;
    row.version = options_.version;
    row.threads = loaded.measure.threads;
    row.seed = loaded.measure.seed;
    row.started = std::time(nullptr);
    row.state = "imported";
    return file_->append(row);
  }

  bool stopped() {
    if (callbacks_.interrupted && callbacks_.interrupted()) result_.stopped_by = "an interrupt";
    if (options_.budget_s > 0 && elapsed_s() > options_.budget_s) result_.stopped_by = "budget";
    return !result_.stopped_by.empty();
  }

  double elapsed_s() const { return seconds_since(start_); }

  const RunnerOptions& options_;
  const RunnerCallbacks& callbacks_;
  Clock::time_point start_;
  RecordFile* file_ = nullptr;
  std::int64_t session_ = 0;
  int lost_in_a_row_ = 0;
  RunnerProgress progress_;
  RunnerResult result_;
};

}  // namespace

Result<RunnerResult> run_bundles(const RunnerOptions& options, const RunnerCallbacks& callbacks) {
  return Run(options, callbacks).run();
}

}  // namespace tessera::runner
