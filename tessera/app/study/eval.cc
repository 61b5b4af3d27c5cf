#include "tessera/app/study/eval.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include <fmt/ranges.h>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/app/study/eval_scores.h"
#include "tessera/lang/te/dag.h"
#include "tessera/learn/dataset/training.h"
#include "tessera/learn/nn/training_notes.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace fs = std::filesystem;

using dataset::Dataset;
using dataset::Example;
using dataset::kLeftOut;
using dataset::kTest;
using dataset::Split;

DefaultSchedule default_of(const Dataset& data, const Example& example) {
  const dataset::TaskInfo& task = data.tasks[static_cast<std::size_t>(example.task)];
  if (task.format != "tessera") return {};
  const auto target =
      target::target_from_text(data.machines[static_cast<std::size_t>(example.machine)].target);
  const auto dag = te::dag_from_text(task.definition);
  if (!target || !dag) return {};
  const auto space = space::make_space(*dag, *target);
  if (!space) return {};
  const auto steps = space->schedule(space->preferred());
  return {space->to_text(space->preferred()), steps ? schedule::to_text(*steps) : ""};
}

namespace {

constexpr double kCovered = 0.01;      // what may miss of a network that counts as covered
constexpr std::size_t kMostNames = 3;  // of tasks without records

bool on_machine(const Dataset& data, const Example& e, const std::string& machine) {
  return data.machines[static_cast<std::size_t>(e.machine)].target.find(machine) !=
         std::string::npos;
}

std::vector<std::size_t> tested(const Dataset& data, const Split& split) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < split.part.size(); ++i) {
    if (split.part[i] == kTest && data.examples[i].seconds > 0) out.push_back(i);
  }
  return out;
}

std::vector<float> labels_of(const Dataset& data) {
  std::vector<dataset::Timed> timed;
  for (const Example& e : data.examples) timed.push_back({e.task, e.machine, e.seconds});
  return dataset::labels_of(timed);
}

// Least squares over the given examples.
std::vector<float> on_a_line(const std::vector<float>& scores, const std::vector<float>& labels,
                             const std::vector<std::size_t>& examples) {
  double n = 0, s = 0, y = 0;
  for (const std::size_t i : examples) {
    n += 1;
    s += static_cast<double>(scores[i]);
    y += static_cast<double>(labels[i]);
  }
  s /= std::max(1.0, n);
  y /= std::max(1.0, n);
  double covariance = 0, variance = 0;
  for (const std::size_t i : examples) {
    const double d = static_cast<double>(scores[i]) - s;
    covariance += d * (static_cast<double>(labels[i]) - y);
    variance += d * d;
  }
  const double slope = variance > 0 ? covariance / variance : 0;
  std::vector<float> out;
  out.reserve(scores.size());
  for (const float score : scores) {
    out.push_back(static_cast<float>(y + slope * (static_cast<double>(score) - s)));
  }
  return out;
}

std::vector<float> sigmoid(const std::vector<float>& scores) {
  std::vector<float> out;
  out.reserve(scores.size());
  for (const float s : scores) out.push_back(1 / (1 + std::exp(-s)));
  return out;
}

// Of trainings within tasks all of which are noted: by the candidates that they learned from.
std::optional<std::size_t> count_seen_within(const Dataset& data,
                                             const std::vector<nn::TrainingSplit>& trainings,
                                             const std::vector<std::size_t>& examples) {
  std::set<std::size_t> seen;
  for (const nn::TrainingSplit& training : trainings) {
    dataset::SplitOptions options;
    options.kind = dataset::SplitKind::kWithinTask;
    if (!dataset::read_note(training.how, &options)) return std::nullopt;
    const Result<Split> split = dataset::split(data, options);
    if (!split) return std::nullopt;
    for (const std::size_t i : examples) {
      const std::uint8_t part = split->part[i];
      if (part == dataset::kTrain || part == dataset::kValidation) seen.insert(i);
    }
  }
  return seen.size();
}

std::optional<std::size_t> count_seen(const Dataset& data, const nn::Notes& notes,
                                      const std::vector<std::size_t>& examples) {
  const std::vector<nn::TrainingSplit> trainings = nn::trainings(notes);
  const char* within = dataset::to_text(dataset::SplitKind::kWithinTask);
  if (!trainings.empty() && std::all_of(trainings.begin(), trainings.end(),
                                        [&](const auto& t) { return t.kind == within; })) {
    return count_seen_within(data, trainings, examples);
  }
  const std::optional<nn::TrainingTasks> tasks = nn::training_tasks(notes);
  if (!tasks) return std::nullopt;
  std::vector<bool> seen;
  for (const dataset::TaskInfo& t : data.tasks) seen.push_back(tasks->saw(t.key));
  return static_cast<std::size_t>(std::count_if(
      examples.begin(), examples.end(),
      [&](std::size_t i) { return seen[static_cast<std::size_t>(data.examples[i].task)]; }));
}

class Evaluator {
 public:
  Evaluator(const EvalOptions& options, Dataset data)
      : o_(options), data_(std::move(data)), labels_(labels_of(data_)) {}

  Result<EvalResult> run() {
    TESSERA_TRY(split_, dataset::split(data_, o_.split));
    if (o_.split.kind == dataset::SplitKind::kByNetwork) {
      TESSERA_TRY(networks_, data_.network_names(o_.split.holdout));
    }
    dataset::keep_machine(data_, o_.machine, true, &split_);
    Split unseen = split_;
    dataset::keep_unseen_reductions(data_, &unseen);
    for (std::size_t i = 0; i < data_.examples.size(); ++i) {
      seen_reduction_.push_back(split_.part[i] == kTest && unseen.part[i] != kTest);
    }
    EvalResult out;
    out.coverage = dataset::coverage_of(data_, networks_, o_.machine);
    TESSERA_DO(count(&out));
    ModelScorer scorer(data_, tested(data_, split_), {o_.features, o_.threads, o_.progress});
    for (const EvalSource& source : o_.models) {
      // Models of another family of machines than those measured say nothing here.
      if (!tests_machine(source.machine)) continue;
      TESSERA_TRY(ModelEvaluation model, evaluate_source(source, &scorer));
      out.models.push_back(std::move(model));
    }
    if (out.models.empty() && !o_.models.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: no test records of the machines that the models are for", o_.data);
    }
    out.unreadable = scorer.unreadable().size();
    name_apart(&out.models);
    out.baselines.push_back(random_baseline());
    out.baselines.push_back(default_baseline(&out.default_tasks));
    std::set<std::string> listed;
    for (const auto* models : {&out.models, &out.baselines}) {
      for (const ModelEvaluation& m : *models) {
        for (const auto& [name, score] : m.evaluation.networks) listed.insert(name);
      }
    }
    for (const dataset::NetworkInfo& n : data_.networks) {
      if (listed.contains(n.name)) out.networks.push_back(n.name);
    }
    return out;
  }

 private:
  Result<void> count(EvalResult* out) const {
    std::set<std::int32_t> tasks, unseen;
    for (const std::size_t i : tested(data_, split_)) {
      ++out->records;
      tasks.insert(data_.examples[i].task);
      if (seen_reduction_[i]) continue;
      ++out->unseen_records;
      unseen.insert(data_.examples[i].task);
    }
    out->tasks = tasks.size();
    out->unseen_tasks = unseen.size();
    if (out->records > 0) return {};
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no test records: {} examples of {} tasks, split {}{} (tasks with fewer "
                      "than 16 timed records are not tested)",
                      o_.data, data_.examples.size(), data_.tasks.size(), to_text(o_.split.kind),
                      o_.machine.empty() ? "" : ", machines with " + o_.machine);
  }

  bool tests_machine(const std::string& machine) const {
    const std::vector<std::size_t> examples = tested(data_, split_);
    return std::any_of(examples.begin(), examples.end(), [&](std::size_t i) {
      return on_machine(data_, data_.examples[i], machine);
    });
  }

  // Order from the scores as they are, values from the scores in the unit of labels.
  ModelEvaluation judge(std::string name, std::string loss, const std::vector<float>& scores,
                        const Split& split, bool only_order = false) const {
    ModelEvaluation out;
    out.name = std::move(name);
    out.loss = std::move(loss);
    out.line = only_order || (out.loss != "mse" && out.loss != "regression");
    const std::vector<float> values = out.line ? on_a_line(scores, labels_, tested(data_, split))
                                      : out.loss == "mse" ? sigmoid(scores)
                                                          : scores;
    out.evaluation = dataset::evaluate(data_, split, kTest, scores, networks_);
    const dataset::Metrics unit = dataset::evaluate(data_, split, kTest, values, {}).average;
    out.evaluation.average.rmse = unit.rmse;
    out.evaluation.average.r2 = unit.r2;
    out.evaluation.average.mape = unit.mape;
    Split unseen = split;
    for (std::size_t i = 0; i < unseen.part.size(); ++i) {
      if (seen_reduction_[i]) unseen.part[i] = kLeftOut;
    }
    out.by_reduction = dataset::evaluate(data_, unseen, kTest, scores, networks_);
    return out;
  }

  Result<ModelEvaluation> evaluate_source(const EvalSource& source, ModelScorer* scorer) const {
    const bool is_npz = source.kind == EvalSource::Kind::kScores;
    TESSERA_TRY(const ScoredModel scored, is_npz ? read_scores(source.path, data_, split_)
                                                 : scorer->score(files_in_list(source.path)));
    Split split = split_;
    dataset::keep_machine(data_, source.machine, true, &split);
    for (const std::size_t i : scorer->unreadable()) split.part[i] = kLeftOut;
    ModelEvaluation out = judge(source.name.empty() ? scored.name : source.name,
                                source.loss.empty() ? scored.loss : source.loss, scored.scores,
                                split, scored.together);
    if (out.evaluation.average.records == 0) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: the spaces of the tested tasks have none of the measured candidates",
                        o_.data);
    }
    out.network = scored.network;
    out.path = source.path;
    out.notes = scored.notes;
    out.seen = count_seen(data_, out.notes, tested(data_, split));
    if (out.seen.value_or(0) > 0) out.notes["seen_in_training"] = fmt::format("{}", *out.seen);
    return out;
  }

  // Rows that would read alike get the stem of their files.
  static void name_apart(std::vector<ModelEvaluation>* models) {
    std::map<std::pair<std::string, std::string>, int> uses;
    for (const ModelEvaluation& m : *models) ++uses[{m.name, m.loss}];
    for (ModelEvaluation& m : *models) {
      const std::string stem = fs::path(m.path).stem().string();
      if (uses.at({m.name, m.loss}) > 1 && stem != m.name) m.name += fmt::format(" ({})", stem);
    }
  }

  ModelEvaluation random_baseline() const {
    Rng rng(o_.seed);
    std::vector<float> scores;
    for (std::size_t i = 0; i < data_.examples.size(); ++i) {
      scores.push_back(static_cast<float>(rng.uniform()));
    }
    return judge("random", "-", scores, split_);
  }

  // 1 for default schedules, else 0; tasks that were not measured with their own are left out.
  ModelEvaluation default_baseline(std::size_t* measured) const {
    std::vector<float> scores(data_.examples.size(), 0);
    std::map<std::pair<std::int32_t, std::int32_t>, DefaultSchedule> defaults;
    std::set<std::pair<std::int32_t, std::int32_t>> found;
    const std::vector<std::size_t> examples = tested(data_, split_);
    for (const std::size_t i : examples) {
      const Example& e = data_.examples[i];
      const auto [at, is_new] = defaults.emplace(std::pair(e.task, e.machine), DefaultSchedule{});
      if (is_new) at->second = default_of(data_, e);
      if (at->second.schedule.empty() || e.schedule != at->second.schedule) continue;
      scores[i] = 1;
      found.insert(at->first);
    }
    Split split = split_;
    std::set<std::int32_t> tasks;
    for (const std::size_t i : examples) {
      const Example& e = data_.examples[i];
      if (found.contains({e.task, e.machine})) {
        tasks.insert(e.task);
      } else {
        split.part[i] = kLeftOut;
      }
    }
    *measured = tasks.size();
    return judge("default", "-", scores, split);
  }

  const EvalOptions& o_;
  Dataset data_;
  std::vector<float> labels_;
  Split split_;
  std::vector<std::string> networks_;  // empty: all
  std::vector<bool> seen_reduction_;  // by example: of the test part, with one of the training part
};

// "by-network tenset5, then by-task"
std::string held_out(const nn::Notes& notes) {
  std::string out;
  const std::vector<nn::TrainingSplit> trainings = nn::trainings(notes);
  for (auto t = trainings.rbegin(); t != trainings.rend(); ++t) {
    out += (out.empty() ? "" : ", then ") + t->kind + (t->holdout.empty() ? "" : " ") + t->holdout;
  }
  return out;
}

// The largest few, each once.
std::vector<std::string> first_names(const std::vector<std::string>& tasks) {
  std::vector<std::string> out;
  for (const std::string& name : tasks) {
    if (std::find(out.begin(), out.end(), name) != out.end()) continue;
    out.push_back(out.size() < kMostNames ? name : "...");
    if (out.size() > kMostNames) break;
  }
  return out;
}

}  // namespace

Result<EvalResult> evaluate_models(const EvalOptions& options) {
  TESSERA_TRY(Dataset data, dataset::load(options.data));
  return Evaluator(options, std::move(data)).run();
}

std::string not_covered(const EvalResult& result) {
  std::vector<std::string> parts;
  for (const dataset::NetworkCoverage& c : result.coverage) {
    if (c.missing <= kCovered && c.unknown == 0) continue;
    std::string part = fmt::format("{} on {}", c.name, c.machine);
    if (c.threads != 1) part += fmt::format(" with {} threads", c.threads);
    part += fmt::format(" {:.1f} % of its FLOP", 100 * c.missing);
    if (!c.tasks.empty()) part += fmt::format(" ({})", fmt::join(first_names(c.tasks), ", "));
    if (c.unknown > 0) {
      part += fmt::format(" and {} tasks that the dataset does not know", c.unknown);
    }
    parts.push_back(std::move(part));
  }
  if (parts.empty()) return "";
  return fmt::format("not covered by records: {}\n", fmt::join(parts, "; "));
}

std::string seen_in_training(const EvalResult& result) {
  std::string out;
  for (const ModelEvaluation& m : result.models) {
    const std::string name = m.loss == "-" ? m.name : m.name + " " + m.loss;
    if (!m.seen && !m.network.empty()) {
      out += fmt::format(
          "{}: its notes do not list the tasks that it was trained on; the test records may be of "
          "some\n",
          name);
    }
    if (m.seen.value_or(0) == 0) continue;
    out += fmt::format("{}: {} of {} test records were seen in training, which held out {}\n", name,
                       *m.seen, m.evaluation.average.records, held_out(m.notes));
  }
  return out;
}

std::string data_folder() {
  std::error_code error;
  if (fs::exists("data/dataset.json", error)) return fs::weakly_canonical("data", error).string();
  return shipped_folder("data", "dataset.json");
}

Result<std::vector<EvalSource>> shipped_sources() {
  std::vector<EvalSource> out;
  const std::string folder = weights_folder();
  for (const target::Arch arch : {target::Arch::kAArch64, target::Arch::kX86_64}) {
    if (folder.empty()) break;
    target::Target family;
    family.arch = arch;
    const std::vector<std::string> files = shipped_models(folder, family);
    for (const std::string& path : files) {
      EvalSource source;
      source.path = path;
      source.name = fs::path(path).stem().string();
      source.machine = fmt::format("triple={}", source.name.substr(0, source.name.find('-')));
      out.push_back(std::move(source));
    }
    const std::vector<std::string> together = default_models(files);
    if (together.size() < 2) continue;
    EvalSource source = out.back();
    source.path = fmt::format("{}", fmt::join(together, ","));
    source.name = fmt::format("{}-default x{}", source.machine.substr(7), together.size());
    out.push_back(std::move(source));
  }
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "no weights come with this Tessera{}",
                    folder.empty() ? "" : ": there are none in " + folder);
}

}  // namespace tessera::app
