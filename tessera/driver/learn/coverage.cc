#include "tessera/driver/learn/coverage.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <set>
#include <sstream>

#include "tessera/driver/compile/shipped_model.h"
#include "tessera/driver/learn/eval_scores.h"
#include "tessera/nn/network_file.h"

namespace tessera::driver {
namespace {

using dataset::Dataset;
using dataset::Example;

constexpr std::size_t kLeastTasks = 3;
constexpr int kOtherSketch = 1000;
// Every network is looked at so many times, each with other candidates near the default: one alone
// says little about how far a model is off.
constexpr std::size_t kLooks = 4;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string word; in >> word;) out.push_back(word);
  return out;
}

using TaskOnMachine = std::pair<std::int32_t, std::int32_t>;

struct TaskRecords {
  std::vector<std::size_t> all;                      // examples
  std::vector<std::pair<int, std::size_t>> nearest;  // to the default: distance, example; sorted
};

class ModelCoverageOf {
 public:
  ModelCoverageOf(const EvalOptions& options, const Dataset& data, const EvalSource& source)
      : o_(options), data_(data), source_(source) {}

  Result<ModelCoverage> run() {
    TESSERA_TRY(const nn::TrainedNetwork network, nn::load_network(source_.path));
    TESSERA_DO(find_records(network.notes));
    std::vector<std::size_t> examples;
    for (const auto& [task, records] : tasks_) {
      examples.insert(examples.end(), records.all.begin(), records.all.end());
    }
    std::sort(examples.begin(), examples.end());
    ModelScorer scorer(data_, examples, {o_.features, o_.threads, o_.progress});
    TESSERA_TRY(const ScoredModel scored, scorer.score(source_.path));
    scored_ = &scored;
    for (const std::size_t i : scorer.unreadable()) unreadable_.insert(i);
    ModelCoverage out;
    out.name =
        source_.name.empty() ? std::filesystem::path(source_.path).stem().string() : source_.name;
    out.path = source_.path;
    out.threads = threads_;
    std::vector<model::NetworkErrors> errors;
    std::set<std::int32_t> machines;
    for (const auto& [key, records] : tasks_) machines.insert(key.second);
    for (const std::int32_t machine : machines) {
      for (const dataset::NetworkInfo& n : data_.networks) {
        if (errors_of(n, machine, 0).size() < kLeastTasks) continue;
        for (std::size_t look = 0; look < kLooks; ++look) {
          errors.push_back(errors_of(n, machine, look));
        }
        out.networks.push_back(
            {.name = n.name,
             .threads = data_.machines[static_cast<std::size_t>(machine)].threads,
             .tasks = errors.back().size()});
      }
    }
    if (out.networks.size() < 5) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: the dataset has {} networks with {} tasks that it has not seen; 5 are "
                        "needed",
                        source_.path, out.networks.size(), kLeastTasks);
    }
    out.calibration = model::fit_calibration(errors);
    out.calibration.networks = static_cast<int>(out.networks.size());
    add_gains(&out.calibration);
    out.coverage = model::leave_one_out(errors);
    for (std::size_t n = 0; n < out.networks.size(); ++n) {
      fill(errors[n * kLooks], out.calibration, &out.networks[n]);
    }
    return out;
  }

 private:
  // Examples of tasks that no training saw, on the machines of the source.
  Result<void> find_records(const nn::Notes& notes) {
    const std::vector<nn::TrainingSplit> trainings = nn::trainings(notes);
    if (trainings.empty()) {
      return make_error(ErrorCode::kInvalidArgument,
                        "{}: its notes do not tell what it was trained on", source_.path);
    }
    std::vector<dataset::Split> splits;
    for (const nn::TrainingSplit& t : trainings) splits.push_back(training_split(data_, t));
    std::map<TaskOnMachine, std::string> defaults;
    for (std::size_t i = 0; i < data_.examples.size(); ++i) {
      const Example& e = data_.examples[i];
      const dataset::MachineInfo& m = data_.machines[static_cast<std::size_t>(e.machine)];
      if (e.seconds <= 0 || m.target.find(source_.machine) == std::string::npos ||
          m.target.find(o_.machine) == std::string::npos) {
        continue;
      }
      const bool seen = std::any_of(splits.begin(), splits.end(), [&](const dataset::Split& s) {
        return s.part[i] != dataset::kTest && s.part[i] != dataset::kValidation;
      });
      if (seen) continue;
      const auto [text, is_new] = defaults.emplace(TaskOnMachine(e.task, e.machine), "");
      if (is_new) text->second = default_of(data_, e).candidate;
      if (text->second.empty()) continue;
      threads_ = std::max(threads_, m.threads);
      TaskRecords& records = tasks_[{e.task, e.machine}];
      records.all.push_back(i);
      records.nearest.emplace_back(candidate_distance(e.candidate, text->second), i);
    }
    for (auto& [task, records] : tasks_) {
      std::sort(records.nearest.begin(), records.nearest.end());
    }
    return {};
  }

  double error(std::size_t i) const {
    return std::log2(static_cast<double>(data_.examples[i].seconds)) -
           static_cast<double>(scored_->log_times[i]);
  }

  // The readable record that is the next nearest to the default after `look` others.
  std::optional<std::size_t> near_default(const TaskRecords& records, std::size_t look) const {
    std::optional<std::size_t> found;
    for (const auto& [distance, i] : records.nearest) {
      if (unreadable_.contains(i)) continue;
      found = i;
      if (look-- == 0) break;
    }
    return found;
  }

  model::NetworkErrors errors_of(const dataset::NetworkInfo& network, std::int32_t machine,
                                 std::size_t look) const {
    model::NetworkErrors out;
    for (const auto& [task, records] : tasks_) {
      if (task.second != machine) continue;
      const std::string& key = data_.tasks[static_cast<std::size_t>(task.first)].key;
      const auto uses = network.weights.find(key);
      if (uses == network.weights.end() || uses->second == 0) continue;
      const std::optional<std::size_t> record = near_default(records, look);
      if (!record) continue;
      const double predicted = std::exp2(static_cast<double>(scored_->log_times[*record]));
      out.push_back({key, uses->second * predicted, error(*record)});
    }
    return out;
  }

  // What the best record of each task gained over the one like the default, beside what the model
  // promised of the record that it likes best.
  void add_gains(model::TimeCalibration* c) const {
    struct Sums {
      double n = 0, gained = 0, promised = 0;
    };
    std::map<std::string, Sums> kinds;
    struct Point {
      std::string kind;
      double gained, promised;
    };
    std::vector<Point> points;
    for (const auto& [task, records] : tasks_) {
      const std::optional<std::size_t> record = near_default(records, 0);
      if (!record) continue;
      std::size_t fastest = *record, liked = *record;
      for (const std::size_t i : records.all) {
        if (unreadable_.contains(i)) continue;
        if (data_.examples[i].seconds < data_.examples[fastest].seconds) fastest = i;
        if (scored_->scores[i] > scored_->scores[liked]) liked = i;
      }
      const double gained = std::log2(static_cast<double>(data_.examples[*record].seconds) /
                                      static_cast<double>(data_.examples[fastest].seconds));
      const double promised = std::max(
          0.0, static_cast<double>(scored_->log_times[*record] - scored_->log_times[liked]));
      const std::string kind =
          model::kind_of_task(data_.tasks[static_cast<std::size_t>(task.first)].name);
      points.push_back({kind, gained, promised});
      for (const std::string& k : {kind, std::string()}) {
        Sums& s = kinds[k];
        s.n += 1;
        s.gained += gained;
        s.promised += promised;
      }
    }
    if (points.empty()) return;
    constexpr double kLeast = 5;  // fewer of a kind go by what all gain
    for (const auto& [kind, s] : kinds) {
      if (s.n >= kLeast || kind.empty()) c->gains[kind] = {s.gained / s.n, s.promised / s.n};
    }
    // Within kinds: how much more is gained where more is promised.
    double covariance = 0, variance = 0;
    std::vector<double> gained;
    for (const Point& p : points) {
      const auto kind = c->gains.contains(p.kind) ? p.kind : std::string();
      const double x = p.promised - c->gains[kind].promised;
      covariance += x * (p.gained - c->gains[kind].gained);
      variance += x * x;
      gained.push_back(p.gained);
    }
    c->gain_slope = variance > 0 ? std::clamp(covariance / variance, 0.0, 1.0) : 0;
    const auto at = static_cast<std::ptrdiff_t>(0.9 * static_cast<double>(gained.size() - 1));
    std::nth_element(gained.begin(), gained.begin() + at, gained.end());
    c->most_gain = gained[static_cast<std::size_t>(at)];
  }

  static void fill(const model::NetworkErrors& errors, const model::TimeCalibration& c,
                   NetworkTime* out) {
    std::vector<double> seconds;
    for (const model::TaskError& t : errors) {
      seconds.push_back(t.seconds);
      out->measured_s += t.seconds * std::exp2(t.error);
    }
    const model::TimeInterval i = model::predict_total(seconds, c);
    out->low_s = i.low_s;
    out->predicted_s = i.seconds;
    out->high_s = i.high_s;
  }

  const EvalOptions& o_;
  const Dataset& data_;
  const EvalSource& source_;
  std::map<TaskOnMachine, TaskRecords> tasks_;
  std::set<std::size_t> unreadable_;
  const ScoredModel* scored_ = nullptr;
  int threads_ = 1;
};

}  // namespace

int candidate_distance(const std::string& a, const std::string& b) {
  const std::vector<std::string> x = words_of(a), y = words_of(b);
  if (x.empty() || y.empty() || x[0] != y[0]) return kOtherSketch;
  const std::multiset<std::string> left(x.begin(), x.end());
  int common = 0;
  for (const std::string& word : y) common += left.contains(word) ? 1 : 0;
  return static_cast<int>(std::max(x.size(), y.size())) - common;
}

Result<std::vector<ModelCoverage>> measure_coverage(const EvalOptions& options) {
  TESSERA_TRY(const Dataset data, dataset::load(options.data));
  std::vector<ModelCoverage> out;
  for (const EvalSource& source : options.models) {
    // Trees tell no times; of several together each is calibrated alone.
    if (source.kind != EvalSource::Kind::kWeights || files_in_list(source.path).size() != 1 ||
        model::read_model_file(source.path)) {
      continue;
    }
    TESSERA_TRY(ModelCoverage one, ModelCoverageOf(options, data, source).run());
    out.push_back(std::move(one));
  }
  if (!out.empty()) return out;
  return make_error(ErrorCode::kInvalidArgument, "no model among those given tells times");
}

Result<void> store_calibration(const std::string& path, const model::TimeCalibration& calibration) {
  TESSERA_TRY(nn::TrainedNetwork network, nn::load_network(path));
  model::note_calibration(calibration, &network.notes);
  return nn::save_network(network, path);
}

}  // namespace tessera::driver
