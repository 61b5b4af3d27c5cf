#include "tessera/driver/tune/tune_simulate.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "tessera/driver/compile/shipped_model.h"
#include "tessera/driver/tune/trial_records.h"
#include "tessera/record/database.h"
#include "tessera/search/task_search.h"
#include "tessera/support/hash.h"

namespace tessera::driver {
namespace {

using Choice = std::vector<std::int32_t>;

struct Recorded {
  measure::Outcome outcome = measure::Outcome::kOk;
  double seconds = 0;
};

// A sketch of which only recorded points exist.
class RecordedSketch final : public space::Sketch {
 public:
  RecordedSketch(const space::Sketch& sketch, std::vector<Choice> points)
      : sketch_(sketch), points_(std::move(points)) {
    name_ = sketch.name();
    decisions_ = sketch.decisions();
    std::sort(points_.begin(), points_.end());
  }

  // Values that some recorded point has after what was decided before.
  void walk(space::Asker& asker) const override {
    auto begin = points_.begin(), end = points_.end();
    for (std::size_t d = 0; d < decisions_.size() && !asker.stopped(); ++d) {
      const auto recorded = [&](std::int32_t value) {
        const auto first =
            std::partition_point(begin, end, [&](const Choice& p) { return p[d] < value; });
        const auto last =
            std::partition_point(first, end, [&](const Choice& p) { return p[d] == value; });
        return std::pair{first, last};
      };
      const std::int32_t value = asker.ask(d, [&](std::int32_t v) {
        const auto [first, last] = recorded(v);
        return first == last ? "not recorded" : nullptr;
      });
      std::tie(begin, end) = recorded(value);
    }
  }

  Result<schedule::Schedule> write(space::Choice choice) const override {
    return sketch_.write(choice);
  }

 private:
  const space::Sketch& sketch_;
  std::vector<Choice> points_;
};

// A task as the database knows it.
struct Table {
  std::unique_ptr<space::Space> whole, recorded;
  std::unordered_map<space::Candidate, Recorded, space::CandidateHash> results;  // of `recorded`
  std::size_t timed = 0;
  double best_s = 0;
};

Result<Table> read_table(const record::Database& database, const task::Task& task,
                         const SimulateOptions& options) {
  Table table;
  TESSERA_TRY(space::Space whole,
              space::make_space(task.dag, options.target, {.sources = options.sources}));
  table.whole = std::make_unique<space::Space>(std::move(whole));
  std::unordered_map<space::Candidate, Recorded, space::CandidateHash> results;
  record::Filter filter;
  filter.task = task.key;
  TESSERA_TRY(filter.targets, targets_of_machine(database, options.target));
  filter.threads = options.threads;
  filter.format = "tessera";
  TESSERA_DO(database.visit(filter, [&](const record::Record& r) {
    Recorded recorded;
    const Result<space::Candidate> c = table.whole->parse(r.candidate);
    if (!c || !table.whole->check(*c)) return true;
    // Drawn for another number of cores, the same words may mean another schedule.
    const Result<schedule::Schedule> steps = table.whole->schedule(*c);
    const bool told = !r.schedule_digest.empty();
    if (!steps || (told && to_hex(hash_bytes(schedule::to_text(*steps))) != r.schedule_digest)) {
      return true;
    }
    if (!measure::outcome_from_text(r.outcome, &recorded.outcome)) return true;
    if (recorded.outcome == measure::Outcome::kWorkerLost) return true;
    recorded.seconds = r.seconds;
    // A whole measurement is worth more than a censored one, and a later one no more than the
    // first.
    const auto [it, added] = results.try_emplace(*c, recorded);
    if (!added && it->second.outcome != measure::Outcome::kOk) it->second = recorded;
    return true;
  }));
  std::map<std::int32_t, std::vector<Choice>> points;
  for (const auto& [c, unused] : results) points[c.sketch].push_back(c.choice);
  if (!results.contains(table.whole->preferred())) return table;
  std::vector<std::unique_ptr<space::Sketch>> sketches;
  std::map<std::int32_t, std::int32_t> index;
  for (auto& [sketch, list] : points) {
    index[sketch] = static_cast<std::int32_t>(sketches.size());
    sketches.push_back(std::make_unique<RecordedSketch>(
        *table.whole->sketches()[static_cast<std::size_t>(sketch)], std::move(list)));
  }
  table.recorded = std::make_unique<space::Space>(task.dag, options.target, std::move(sketches));
  for (const auto& [c, recorded] : results) {
    table.results[{index[c.sketch], c.choice}] = recorded;
    if (!measure::is_timed(recorded.outcome) || recorded.seconds <= 0) continue;
    ++table.timed;
    if (recorded.outcome == measure::Outcome::kCensored) continue;
    table.best_s = table.best_s > 0 ? std::min(table.best_s, recorded.seconds) : recorded.seconds;
  }
  return table;
}

std::vector<space::Candidate> shuffled(const Table& table, std::uint64_t seed) {
  std::vector<space::Candidate> out;
  for (const auto& [c, unused] : table.results) out.push_back(c);
  // The order of a hash table is nobody's promise.
  std::sort(out.begin(), out.end(), [](const space::Candidate& a, const space::Candidate& b) {
    return std::tie(a.sketch, a.choice) < std::tie(b.sketch, b.choice);
  });
  Rng rng(seed);
  for (std::size_t i = out.size(); i > 1; --i) {
    std::swap(out[i - 1], out[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
  return out;
}

// One way to search: a policy, its objective, and what `name+option=value` changes of the defaults.
struct Variant {
  std::string label;
  const search::PolicyEntry* policy = nullptr;
  search::PolicyOptions policy_options;
  search::LearnerOptions learner;
};

Result<void> set_option(const std::string& text, const target::Target& target, Variant* v) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (name == "acquisition" && (value == "mean" || value == "ei" || value == "ucb")) {
    v->policy_options.acquisition = value;
    // The spread comes from an ensemble.
    if (value != "mean") v->learner.model = "xgb_ensemble";
    return {};
  }
  if (name == "features" &&
      (value == "statement" || value == "loop" || value == "curve" || value == "decisions")) {
    v->learner.features = value;
    return {};
  }
  if (name == "pretrained" && !value.empty()) {
    v->learner.pretrained = model_paths(value, target);
    return {};
  }
  if (name == "diversity") {
    double number = 0;
    const char* end = value.data() + value.size();
    const auto [rest, error] = std::from_chars(value.data(), end, number);
    if (error == std::errc() && rest == end && number >= 0) {
      v->policy_options.diversity = number;
      return {};
    }
  }
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' is no option of a policy; there are diversity=NUMBER, "
                    "acquisition=mean|ei|ucb, features=statement|loop|curve|decisions and "
                    "pretrained=none|shipped|FILE",
                    text);
}

// "annealing+diversity=1" once for each objective; policies without a model once.
Result<std::vector<Variant>> variants_of(const std::string& text, const SimulateOptions& options) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '+') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  Variant v{.label = text, .policy_options = options.policy_options, .learner = options.learner};
  TESSERA_TRY(v.policy, search::find_policy(parts[0]));
  for (std::size_t i = 1; i < parts.size(); ++i)
    TESSERA_DO(set_option(parts[i], options.target, &v));
  if (!v.policy->uses_model) return std::vector<Variant>{v};
  std::vector<Variant> out;
  for (const std::string& objective : options.objectives) {
    out.push_back(v);
    out.back().label += " " + objective;
    out.back().learner.objective = objective;
  }
  return out;
}

// Each file once for all runs.
Result<void> load_models(std::vector<Variant>* variants) {
  std::map<std::vector<std::string>, std::shared_ptr<const model::CostModel>> loaded;
  for (Variant& v : *variants) {
    const std::vector<std::string> paths = std::exchange(v.learner.pretrained, {});
    if (paths.empty() || !v.policy->uses_model) continue;
    if (loaded[paths] == nullptr) {
      TESSERA_TRY(loaded[paths], model::load_models(paths, v.learner.threads));
    }
    v.learner.global = loaded[paths];
  }
  return {};
}

Result<std::vector<double>> run_policy(const Table& table, const Variant& variant,
                                       std::uint64_t seed, const SimulateOptions& options) {
  std::unique_ptr<search::Learner> learner;
  if (variant.policy->uses_model) {
    search::LearnerOptions learning = variant.learner;
    learning.background = false;
    learning.seed = seed;
    TESSERA_TRY(learner, search::Learner::make(learning));
  }
  search::PolicyOptions policy_options = variant.policy_options;
  policy_options.seed = seed;
  search::TaskSearch task(*table.recorded, *variant.policy, policy_options, learner.get());
  std::vector<space::Candidate> unmeasured = shuffled(table, seed);
  std::unordered_set<space::Candidate, space::CandidateHash> measured;
  std::vector<double> best;
  while (static_cast<std::int64_t>(best.size()) < options.trials) {
    if (learner) learner->update();
    const std::size_t wanted =
        std::min(options.batch, static_cast<std::size_t>(options.trials) - best.size());
    std::vector<space::Candidate> proposed = task.propose(wanted);
    measured.insert(proposed.begin(), proposed.end());
    // Many points stand for few recorded ones: what a policy cannot reach is drawn for it.
    for (; proposed.size() < wanted && !unmeasured.empty(); unmeasured.pop_back()) {
      if (measured.insert(unmeasured.back()).second) proposed.push_back(unmeasured.back());
    }
    if (proposed.empty()) break;
    for (const space::Candidate& c : proposed) {
      const Recorded& r = table.results.at(c);
      const search::TrialResult result{c, r.outcome, r.seconds};
      task.observe({&result, 1});
      best.push_back(task.best_seconds());
    }
  }
  return best;
}

double best_after(const Curve& curve, std::int64_t trials) {
  if (curve.best_s.empty() || trials <= 0) return 0;
  return curve.best_s[std::min(static_cast<std::size_t>(trials), curve.best_s.size()) - 1];
}

}  // namespace

double Simulation::score(const std::string& policy, std::int64_t trials) const {
  double sum = 0;
  int count = 0;
  for (const Curve& curve : curves) {
    if (curve.policy != policy) continue;
    const auto task = std::find_if(tasks.begin(), tasks.end(),
                                   [&](const Task& t) { return t.key == curve.task; });
    const double best = best_after(curve, trials);
    // Nothing valid yet counts as a hundredth.
    sum += std::log(best > 0 ? std::min(1.0, task->best_s / best) : 0.01);
    ++count;
  }
  return count > 0 ? std::exp(sum / count) : 0;
}

std::int64_t Simulation::trials_to(const std::string& policy, double wanted) const {
  std::size_t longest = 0;
  for (const Curve& c : curves) longest = std::max(longest, c.best_s.size());
  for (std::size_t n = 1; n <= longest; ++n) {
    const auto trials = static_cast<std::int64_t>(n);
    if (score(policy, trials) >= wanted) return trials;
  }
  return 0;
}

Result<Simulation> simulate(const TuneProblem& problem, const SimulateOptions& wanted) {
  SimulateOptions options = wanted;
  options.target = target::code_target(wanted.target, wanted.threads);
  TESSERA_TRY(const record::Database database, record::Database::open_read_only(options.database));
  Simulation out;
  std::vector<Variant> variants;
  for (const std::string& text : options.policies) {
    TESSERA_TRY(const std::vector<Variant> made, variants_of(text, options));
    variants.insert(variants.end(), made.begin(), made.end());
  }
  for (const Variant& v : variants) out.policies.push_back(v.label);
  TESSERA_DO(load_models(&variants));
  for (const TuneTask& t : problem.tasks) {
    TESSERA_TRY(const Table table, read_table(database, t.task, options));
    if (!table.recorded || table.timed < options.min_records) continue;
    out.tasks.push_back({t.task.key, t.task.name, table.results.size(), table.best_s});
    for (const Variant& v : variants) {
      for (int i = 0; i < options.seeds; ++i) {
        const std::uint64_t seed = options.seed + static_cast<std::uint64_t>(i);
        Curve curve{t.task.key, t.task.name, v.label, seed, {}};
        TESSERA_TRY(curve.best_s, run_policy(table, v, seed, options));
        out.curves.push_back(std::move(curve));
      }
    }
  }
  if (!out.tasks.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument,
                    "{} has no task of these with {} timed candidates for this machine and {} "
                    "threads",
                    options.database, options.min_records, options.threads);
}

}  // namespace tessera::driver
