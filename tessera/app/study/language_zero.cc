#include "tessera/app/study/language_zero.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/compile/zero_trials.h"
#include "tessera/app/study/studied_task.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/search/model_scorer.h"
#include "tessera/support/parallel.h"

namespace tessera::app {
namespace {

constexpr double kSlower = 0.99;  // of the default's speed

class ZeroTrialStudy {
 public:
  explicit ZeroTrialStudy(const ZeroStudyOptions& options) : options_(options) {
    std::vector<double> asked = {kNoEvidence};
    asked.insert(asked.end(), options.evidence.begin(), options.evidence.end());
    for (const double evidence : asked) {
      for (const double margin : options.margins)
        out_.rows.push_back({.margin = margin, .evidence = evidence});
    }
  }

  Result<ZeroStudy> run(const dataset::Dataset& data) {
    TESSERA_TRY(const std::set<std::string> keys, judged_keys(data));
    TESSERA_TRY(const std::vector<std::vector<StudiedTask>> machines,
                recorded_tasks(data, keys, options_.machine, options_.most_tasks));
    for (const std::vector<StudiedTask>& tasks : machines) total_ += tasks.size();
    TESSERA_TRY(const std::vector<std::string> names, data.network_names(options_.networks));
    for (const std::vector<StudiedTask>& tasks : machines) {
      times_.clear();
      TESSERA_DO(run_machine(tasks));
      if (!options_.validation) add_networks(data, names, tasks.front().target);
    }
    if (out_.tasks == 0 && !stopped_) {
      return make_error(ErrorCode::kInvalidArgument,
                        "no task of these networks has a recorded default{}",
                        options_.machine.empty() ? "" : " on " + options_.machine);
    }
    const double n = std::max<double>(1, static_cast<double>(out_.tasks));
    for (ZeroStudyRow& row : out_.rows) row.gain = std::exp(std::log(row.gain) / n);
    out_.best_gain = std::exp(std::log(out_.best_gain) / n);
    out_.finished = !stopped_;
    return out_;
  }

 private:
  Result<std::set<std::string>> judged_keys(const dataset::Dataset& data) const {
    std::set<std::string> out;
    if (!options_.validation) {
      TESSERA_TRY(const std::vector<std::string> keys, data.tasks_of(options_.networks));
      out = {keys.begin(), keys.end()};
      return out;
    }
    TESSERA_TRY(const std::vector<nn::TrainingTasks> judges, tasks_of_judges(data));
    for (const dataset::TaskInfo& t : data.tasks) {
      const auto validated = [&](const nn::TrainingTasks& j) { return j.validated(t.key); };
      const auto learned = [&](const nn::TrainingTasks& j) {
        return j.saw(t.key) && !j.validated(t.key);
      };
      if (std::any_of(judges.begin(), judges.end(), validated) &&
          std::none_of(judges.begin(), judges.end(), learned)) {
        out.insert(t.key);
      }
    }
    return out;
  }

  // What the cost models of all machines learned from.
  Result<std::vector<nn::TrainingTasks>> tasks_of_judges(const dataset::Dataset& data) const {
    std::set<std::string> paths;
    for (const dataset::MachineInfo& m : data.machines) {
      const Result<target::Target> target = target::target_from_text(m.target);
      if (!target || m.target.find(options_.machine) == std::string::npos) continue;
      const ZeroTrialModels models = zero_trial_models(options_.cost_model, weights_folder(),
                                                       target::code_target(*target, m.threads));
      paths.insert(models.paths.begin(), models.paths.end());
    }
    std::vector<nn::TrainingTasks> out;
    for (const std::string& path : paths) {
      TESSERA_TRY(const nn::TrainedNetwork network, nn::load_network(path));
      std::optional<nn::TrainingTasks> tasks = nn::training_tasks(network.notes);
      if (!tasks) {
        return make_error(
            ErrorCode::kInvalidArgument,
            "{}: its notes do not list the tasks that it was trained on and those that "
            "validated it",
            path);
      }
      out.push_back(std::move(*tasks));
    }
    return out;
  }

  Result<void> run_machine(const std::vector<StudiedTask>& tasks) {
    const ZeroTrialModels models =
        zero_trial_models(options_.cost_model, weights_folder(), tasks.front().target);
    agreed_ = models.in_networks ? kInNetworks : Agreement{};
    if (models.paths.empty()) {
      return make_error(ErrorCode::kUnavailable, "no cost model comes with this Tessera for {}",
                        tasks.front().target.name);
    }
    TESSERA_TRY(const std::shared_ptr<const model::CostModel> model,
                model::load_models(models.paths, 1));
    TESSERA_TRY(const std::string path, language_path(options_.language, tasks.front().target));
    std::vector<std::shared_ptr<lm::Reader>> readers(
        static_cast<std::size_t>(std::max(1, options_.threads)));
    const auto run = [&](std::size_t i, std::size_t thread) -> Result<void> {
      if (stopped_) return {};
      std::shared_ptr<lm::Reader>& reader = readers[thread];
      if (reader == nullptr) {
        TESSERA_TRY(reader, open_language(path, kGuidance, 1));
      }
      TESSERA_TRY(const RecordedTask task, read_records(tasks[i], /*withheld=*/false));
      return run_task(*tasks[i].task, task, model, *reader);
    };
    return try_parallel_for(tasks.size(), options_.threads, [&](std::size_t i, std::size_t thread) {
      const Result<void> done = run(i, thread);
      if (!done.ok()) stopped_ = true;
      return done;
    });
  }

  void add_networks(const dataset::Dataset& data, const std::vector<std::string>& names,
                    const target::Target& target) {
    for (const dataset::NetworkInfo& n : data.networks) {
      if (std::find(names.begin(), names.end(), n.name) == names.end()) continue;
      ZeroNetwork out{.name = n.name,
                      .machine = target.name + " " + target.cpu,
                      .threads = target.code_threads()};
      for (const auto& [key, weight] : n.weights) {
        if (weight == 0) continue;
        const auto found = times_.find(key);
        (found == times_.end() ? out.unknown : out.tasks) += 1;
        if (found == times_.end()) continue;
        out.default_s += weight * found->second.usual_s;
        out.chosen_s += weight * found->second.chosen_s;
        out.best_s += weight * found->second.best_s;
      }
      if (out.tasks > 0) out_.networks.push_back(std::move(out));
    }
  }

  Result<void> run_task(const dataset::TaskInfo& info, const RecordedTask& task,
                        const std::shared_ptr<const model::CostModel>& model, lm::Reader& reader) {
    std::vector<decide::Candidate> candidates;
    std::vector<double> seconds;
    bool known = false;
    if (const space::Space* recorded = task.recorded(); recorded != nullptr) {
      for (const RecordedTrial& t : task.results(task.shuffled(1))) {
        if (!measure::is_timed(t.outcome) || !(t.seconds > 0)) continue;
        const bool usual = t.candidate == recorded->preferred();
        candidates.insert(usual ? candidates.begin() : candidates.end(), t.candidate);
        seconds.insert(usual ? seconds.begin() : seconds.end(), t.seconds);
      }
      // Where the preferred one was not recorded another one stands for it.
      known =
          !candidates.empty() && candidates.front() == recorded->preferred() &&
          recorded->to_text(candidates.front()) == task.whole().to_text(task.whole().preferred());
    }
    if (known) TESSERA_DO(judge(info, task, candidates, seconds, model, reader));
    const std::lock_guard lock(mutex_);
    ++done_;
    if (options_.progress && !options_.progress(done_, total_)) stopped_ = true;
    return {};
  }

  Result<void> judge(const dataset::TaskInfo& info, const RecordedTask& task,
                     const std::vector<decide::Candidate>& candidates,
                     const std::vector<double>& seconds,
                     const std::shared_ptr<const model::CostModel>& model, lm::Reader& reader) {
    const std::unique_ptr<lm::Reader> whole = whole_chances(task.whole(), reader);
    const int code_threads = task.whole().target().code_threads();
    search::LearnerOptions learning;
    learning.model = "random";  // there is nothing to learn from
    learning.global = model;
    learning.code_threads = code_threads;
    learning.threads = 1;
    TESSERA_TRY(const std::unique_ptr<search::Learner> learner, search::Learner::make(learning));
    const std::vector<float> scores = learner->add_task(*task.recorded()).score(candidates);
    if (scores.size() != candidates.size()) return {};
    TESSERA_TRY(const JudgedTask judged, judge_candidates(*task.recorded(), candidates, scores,
                                                          *model, code_threads, whole.get()));
    if (!judged.tells_times) return {};
    const auto seconds_of = [&](const decide::Candidate& c) {
      const auto at = std::find(candidates.begin(), candidates.end(), c) - candidates.begin();
      return seconds[static_cast<std::size_t>(at)];
    };
    const double usual_s = seconds.front();
    const double best_s = *std::min_element(seconds.begin(), seconds.end());
    const std::lock_guard lock(mutex_);
    const auto builds = [](const decide::Candidate&) { return true; };
    const auto known = [&](const decide::Candidate& c) {
      return knows_kind(*model, *task.recorded(), code_threads, c);
    };
    const JudgedCandidate* shipped =
        known(candidates.front()) && may_change(agreed_, info.name, info.flops, info.bytes)
            ? choose_candidate(judged, agreed_.margin, agreed_.evidence, known)
            : nullptr;
    times_[info.key] = {usual_s, shipped == nullptr ? usual_s : seconds_of(shipped->candidate),
                        best_s};
    ++out_.tasks;
    out_.best_gain *= usual_s / best_s;
    for (ZeroStudyRow& row : out_.rows) {
      const JudgedCandidate* chosen = choose_candidate(judged, row.margin, row.evidence, builds);
      if (chosen == nullptr) continue;
      const double gain = usual_s / seconds_of(chosen->candidate);
      ++row.changed;
      row.slower += gain < kSlower ? 1 : 0;
      row.gain *= gain;
      row.worst = std::min(row.worst, gain);
    }
    return {};
  }

  struct Times {
    double usual_s = 0, chosen_s = 0, best_s = 0;
  };

  const ZeroStudyOptions& options_;
  Agreement agreed_;                    // that `compile` asks for on the machine
  std::map<std::string, Times> times_;  // by task, of one machine
  std::mutex mutex_;
  std::atomic<bool> stopped_ = false;
  std::size_t done_ = 0, total_ = 0;
  ZeroStudy out_;
};

}  // namespace

Result<ZeroStudy> study_zero_trials(const ZeroStudyOptions& options) {
  if (options.margins.empty() || options.threads < 1)
    return make_error(ErrorCode::kInvalidArgument, "a study needs margins and threads");
  TESSERA_TRY(const dataset::Dataset data, dataset::load(options.data));
  return ZeroTrialStudy(options).run(data);
}

}  // namespace tessera::app
