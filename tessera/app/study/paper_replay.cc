// Studies that replay searches on records.
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/language_eval.h"
#include "tessera/app/study/paper_study.h"
#include "tessera/app/study/studied_task.h"
#include "tessera/app/tune/policy_run.h"
#include "tessera/learn/model/model_file.h"
#include "tessera/learn/nn/network_file.h"
#include "tessera/learn/nn/training_notes.h"

namespace tessera::app {
namespace {

Result<nn::Notes> notes_of_file(const std::string& path) {
  if (const Result<model::ModelFile> trees = model::read_model_file(path); trees.ok())
    return trees->notes;
  TESSERA_TRY(const nn::TrainedNetwork network, nn::load_network(path));
  return network.notes;
}

// Nothing is scored on what it was trained on or chosen by.
Result<void> check_unseen(const std::string& path, const std::set<std::string>& keys) {
  TESSERA_TRY(const nn::Notes notes, notes_of_file(path));
  const std::optional<nn::TrainingTasks> tasks = nn::training_tasks(notes);
  if (!tasks) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: its notes do not list the tasks that it was trained on", path);
  }
  for (const std::string& key : keys) {
    if (tasks->saw(key)) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: it was trained on task {}, which this study tests", path, key);
    }
  }
  return {};
}

// The pretrained models of all searches, on every machine that is tested.
Result<void> check_models(const ReplaySpec& spec, const dataset::Dataset& data) {
  TESSERA_TRY(const std::vector<std::string> listed, data.tasks_of(spec.networks));
  const std::set<std::string> keys(listed.begin(), listed.end());
  TESSERA_TRY(const auto machines, recorded_tasks(data, keys, spec.machine, 0));
  std::set<std::string> checked;
  for (const std::vector<StudiedTask>& tasks : machines) {
    if (tasks.empty()) continue;
    PolicyVariant base;
    base.learner.pretrained = model_paths(kShipped, tasks.front().target);
    for (const ReplaySpec::Search& search : spec.searches) {
      const std::string_view text = search.policy;
      std::vector<std::string> paths;
      if (!text.starts_with("lm")) {
        TESSERA_TRY(const PolicyVariant v,
                    policy_variant(search.policy, base, tasks.front().target));
        const bool reads = v.policy->uses_model && v.learner.model != kNoModel;
        if (reads) paths = v.learner.pretrained;
      } else if (text.find("+model=none") == std::string_view::npos) {
        paths = base.learner.pretrained;  // the language model is opened where it is used
      }
      for (const std::string& path : paths) {
        if (checked.insert(path).second) TESSERA_DO(check_unseen(path, keys));
      }
    }
  }
  return {};
}

// "neoverse-v1, sapphirerapids", as the dataset has them.
std::string machines_of(const dataset::Dataset& data, const std::string& machine) {
  std::set<std::string> names;
  for (const dataset::MachineInfo& m : data.machines) {
    if (m.target.find(machine) == std::string::npos) continue;
    const auto target = target::target_from_text(m.target);
    if (!target.ok()) continue;
    names.insert(target->is_gpu() ? target->name
                                  : fmt::format("{} with {} thread{}", target->cpu, m.threads,
                                                m.threads == 1 ? "" : "s"));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<StudyResult> replay_study(const ReplaySpec& spec, const StudyOptions& options) {
  LanguageEvalOptions o;
  o.data = (std::filesystem::path(options.data) / spec.folder).string();
  TESSERA_TRY(const dataset::Dataset data, dataset::load(o.data));
  TESSERA_DO(check_models(spec, data));
  o.networks = spec.networks;
  o.machine = spec.machine;
  o.trials = spec.trials;
  o.seed = options.seed;
  o.seeds = options.seeds;
  o.threads = options.threads;
  o.least_records = spec.least_records;
  o.most_tasks = options.most_tasks > 0 ? options.most_tasks : spec.most_tasks;
  for (const ReplaySpec::Search& s : spec.searches) o.policies.push_back({s.name, s.policy});
  o.progress = [&](std::size_t done, std::size_t total) {
    return !options.progress || options.progress("tasks", done, total);
  };
  TESSERA_TRY(const LanguageEval eval, evaluate_language(o));
  if (!eval.finished) return make_error(ErrorCode::kRunFailed, "interrupted");
  StudyResult out;
  out.data = fmt::format("{} tasks, {} recorded candidates", eval.tasks, eval.candidates);
  out.machine = machines_of(data, spec.machine);
  out.seeds = options.all_seeds();
  out.measure = "share of the best recorded speed, by trials per task";
  for (const std::int64_t n : eval.trials) out.columns.push_back(fmt::format("{}", n));
  for (const PolicyShares& p : eval.policies) out.rows.push_back({p.name, p.by_seed});
  return out;
}

}  // namespace tessera::app
