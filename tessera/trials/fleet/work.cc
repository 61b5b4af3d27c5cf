#include "tessera/trials/fleet/work.h"

#include <algorithm>
#include <cmath>
#include <set>

#include <nlohmann/json.hpp>

#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/schedule/step.h"

namespace tessera::fleet {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostTasks = 4096, kMostTaskBytes = std::size_t{1} << 20;
constexpr std::size_t kMostSteps = 4096, kMostSamples = 4096, kMostReasonBytes = 4096;
constexpr double kLongestTrialSeconds = 120;

Error wrong(const std::string& what) { return make_error(ErrorCode::kInvalidArgument, "{}", what); }

Result<Json> parse(std::string_view text, std::size_t most) {
  if (text.size() > most) return wrong(fmt::format("more than {} bytes", most));
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return wrong("not a JSON object");
  return json;
}

// What is missing, of another type or outside of its limits is the first error.
class Reader {
 public:
  explicit Reader(const Json& json) : json_(json) {}

  void read(const char* name, double low, double high, double* value) {
    const Json* j = find(name);
    if (j == nullptr) return;
    const double v = j->is_number() ? j->get<double>() : NAN;
    if (!std::isfinite(v) || v < low || v > high) return fail(name);
    *value = v;
  }
  template <std::integral T>
  void read(const char* name, T low, T high, T* value) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_number_integer() && !j->is_number_unsigned()) return fail(name);
    const bool negative = !j->is_number_unsigned() && j->get<std::int64_t>() < 0;
    const bool fits = negative ? std::cmp_greater_equal(j->get<std::int64_t>(), low)
                               : std::cmp_less_equal(j->get<std::uint64_t>(), high) &&
                                     std::cmp_greater_equal(j->get<std::uint64_t>(), low);
    if (!fits) return fail(name);
    *value = j->get<T>();
  }
  void read(const char* name, bool* value) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_boolean()) return fail(name);
    *value = j->get<bool>();
  }
  void read(const char* name, std::size_t most, std::string* value) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_string() || j->get_ref<const std::string&>().size() > most) return fail(name);
    *value = j->get<std::string>();
  }
  void read(const char* name, std::size_t most, std::vector<double>* values) {
    const Json* j = find(name);
    if (j == nullptr) return;
    if (!j->is_array() || j->size() > most) return fail(name);
    for (const Json& v : *j) {
      const double s = v.is_number() ? v.get<double>() : NAN;
      if (!std::isfinite(s) || s <= 0) return fail(name);
      values->push_back(s);
    }
  }
  // A list of objects.
  const Json* list(const char* name, std::size_t most) {
    const Json* j = find(name);
    if (j == nullptr) return nullptr;
    const bool right =
        j->is_array() && j->size() <= most &&
        std::all_of(j->begin(), j->end(), [](const Json& v) { return v.is_object(); });
    if (!right) fail(name);
    return right ? j : nullptr;
  }
  void fail(const std::string& name) {
    if (error_.empty()) error_ = fmt::format("'{}' is missing, or not as it must be", name);
  }
  Result<void> done() const { return error_.empty() ? Result<void>() : wrong(error_); }

 private:
  const Json* find(const char* name) {
    const auto it = json_.find(name);
    if (it == json_.end()) fail(name);
    return it == json_.end() ? nullptr : &*it;
  }

  const Json& json_;
  std::string error_;
};

Result<measure::MeasuredTask> task_of(const Json& json) {
  measure::MeasuredTask task;
  std::string text;
  Reader in(json);
  in.read("key", 256, &task.key);
  in.read("definition", kMostTaskBytes, &text);
  in.read("cold", &task.cold_caches);
  TESSERA_DO(in.done());
  TESSERA_TRY(task.dag, te::dag_from_text(text));
  return task;
}

Result<measure::Trial> trial_of(const Json& json) {
  measure::Trial trial;
  std::string steps;
  Reader in(json);
  in.read("task", 256, &trial.task);
  in.read("schedule", kMostBatchBytes, &steps);
  in.read("incumbent_s", 0, 1e6, &trial.incumbent_s);
  in.read("final", &trial.final);
  TESSERA_DO(in.done());
  TESSERA_TRY(trial.steps, schedule::schedule_from_text(steps));
  if (trial.steps.steps.size() > kMostSteps) return wrong("a schedule of too many steps");
  return trial;
}

// At the end of a character.
std::string shortened(std::string text) {
  if (text.size() <= kMostReasonBytes) return text;
  text.resize(kMostReasonBytes);
  const auto is_part = [](char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; };
  while (!text.empty() && is_part(text.back())) text.pop_back();
  if (!text.empty()) text.pop_back();
  return text;
}

Json json_of(const measure::Measurement& m) {
  return {{"outcome", measure::to_text(m.outcome)},
          {"reason", shortened(m.reason)},
          {"samples_s", m.samples_s},
          {"calibration_s", m.calibration_s},
          {"memory_s", m.memory_s},
          {"build_ms", m.build_ms},
          {"run_ms", m.run_ms},
          {"disturbed", m.disturbed}};
}

Result<measure::Measurement> measurement_of(const Json& json) {
  measure::Measurement m;
  std::string outcome;
  Reader in(json);
  in.read("outcome", 64, &outcome);
  in.read("reason", kMostBatchBytes, &m.reason);
  in.read("samples_s", kMostSamples, &m.samples_s);
  in.read("calibration_s", 0, 1e6, &m.calibration_s);
  in.read("memory_s", 0, 1e6, &m.memory_s);
  in.read("build_ms", 0, 1e9, &m.build_ms);
  in.read("run_ms", 0, 1e9, &m.run_ms);
  in.read("disturbed", &m.disturbed);
  if (!measure::outcome_from_text(outcome, &m.outcome)) in.fail("outcome");
  if (measure::is_timed(m.outcome) && m.samples_s.empty()) in.fail("samples_s");
  TESSERA_DO(in.done());
  return m;
}

// Bytes that are not UTF-8, as a reason may hold, are replaced.
std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void read_options(Reader& in, measure::MeasureOptions* o) {
  in.read("threads", 1, 1024, &o->threads);
  in.read("build_timeout_s", 0.001, kLongestTrialSeconds, &o->build_timeout_s);
  in.read("run_timeout_s", 0.001, kLongestTrialSeconds, &o->run_timeout_s);
  in.read("min_samples", 1, 1024, &o->min_samples);
  in.read("max_samples", 1, 1024, &o->max_samples);
  in.read("sample_s", 0, 1, &o->sample_s);
  in.read("trial_limit_s", 0, kLongestTrialSeconds, &o->trial_limit_s);
  in.read("loser_factor", 1, 1e6, &o->loser_factor);
  in.read("check_results", &o->check_results);
  in.read("cold_caches", &o->cold_caches);
  in.read("evicted_bytes", std::int64_t{0}, std::int64_t{1} << 40, &o->evicted_bytes);
  in.read("seed", std::uint64_t{0}, UINT64_MAX, &o->seed);
}

}  // namespace

std::string to_text(const Work& work) {
  const measure::MeasureOptions& o = work.options;
  Json tasks = Json::array();
  for (const measure::MeasuredTask& t : work.tasks) {
    tasks.push_back({{"key", t.key}, {"definition", te::to_text(t.dag)}, {"cold", t.cold_caches}});
  }
  return dump({{"target", target::to_text(work.target)},
               {"tasks", std::move(tasks)},
               {"threads", o.threads},
               {"build_timeout_s", o.build_timeout_s},
               {"run_timeout_s", o.run_timeout_s},
               {"min_samples", o.min_samples},
               {"max_samples", o.max_samples},
               {"sample_s", o.sample_s},
               {"trial_limit_s", o.trial_limit_s},
               {"loser_factor", o.loser_factor},
               {"check_results", o.check_results},
               {"cold_caches", o.cold_caches},
               {"evicted_bytes", o.evicted_bytes},
               {"seed", o.seed}});
}

Result<Work> work_from_text(std::string_view text) {
  TESSERA_TRY(const Json json, parse(text, kMostWorkBytes));
  Work work;
  std::string target;
  Reader in(json);
  in.read("target", 4096, &target);
  read_options(in, &work.options);
  const Json* tasks = in.list("tasks", kMostTasks);
  TESSERA_DO(in.done());
  TESSERA_TRY(work.target, target::target_from_text(target));
  std::set<std::string> keys;
  for (const Json& t : *tasks) {
    TESSERA_TRY(measure::MeasuredTask task, task_of(t));
    if (!keys.insert(task.key).second) return wrong(fmt::format("two tasks {}", task.key));
    work.tasks.push_back(std::move(task));
  }
  return work;
}

std::string to_text(const Batch& batch) {
  Json trials = Json::array();
  for (const measure::Trial& t : batch.trials) {
    trials.push_back({{"task", t.task},
                      {"schedule", schedule::to_text(t.steps)},
                      {"incumbent_s", t.incumbent_s},
                      {"final", t.final}});
  }
  return dump({{"trials", std::move(trials)}});
}

Result<Batch> batch_from_text(std::string_view text) {
  TESSERA_TRY(const Json json, parse(text, kMostBatchBytes));
  Reader in(json);
  const Json* trials = in.list("trials", measure::kMostCompared);
  TESSERA_DO(in.done());
  Batch batch;
  for (const Json& t : *trials) {
    TESSERA_TRY(measure::Trial trial, trial_of(t));
    trial.id = batch.trials.size();
    batch.trials.push_back(std::move(trial));
  }
  if (batch.trials.empty()) return wrong("no trials");
  return batch;
}

std::string to_text(const BatchResult& result) {
  Json measurements = Json::array();
  for (const measure::Measurement& m : result.measurements) measurements.push_back(json_of(m));
  return dump({{"measurements", std::move(measurements)},
               {"calibration_best_s", result.machine.calibration_best_s},
               {"waiting_share", result.machine.waiting_share},
               {"busy", result.machine.busy}});
}

Result<BatchResult> result_from_text(std::string_view text) {
  TESSERA_TRY(const Json json, parse(text, kMostBatchBytes));
  BatchResult out;
  Reader in(json);
  const Json* measurements = in.list("measurements", measure::kMostCompared);
  in.read("calibration_best_s", 0, 1e6, &out.machine.calibration_best_s);
  in.read("waiting_share", 0, 1, &out.machine.waiting_share);
  in.read("busy", &out.machine.busy);
  TESSERA_DO(in.done());
  for (const Json& m : *measurements) {
    TESSERA_TRY(measure::Measurement measurement, measurement_of(m));
    out.measurements.push_back(std::move(measurement));
    if (out.measurements.back().calibration_s > 0)
      out.machine.calibration_s = out.measurements.back().calibration_s;
  }
  return out;
}

std::string refusal(const std::string& reason) { return dump({{"refused", shortened(reason)}}); }

std::string reason_of_refusal(std::string_view text) {
  const Result<Json> json = parse(text, kMostBatchBytes);
  if (!json.ok() || !json->contains("refused") || !json->at("refused").is_string()) return "";
  return json->at("refused").get<std::string>();
}

}  // namespace tessera::fleet
