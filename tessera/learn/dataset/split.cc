#include <algorithm>
#include <set>

#include "tessera/lang/te/canonical.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/support/hash.h"

namespace tessera::dataset {
namespace {

constexpr std::size_t kLeastTested = 16;

// What places are drawn for: two draws of one key say nothing of each other.
constexpr const char* kPart = "part";
constexpr const char* kOrder = "order";

// Uniform in [0, 1), of the words and the seed alone: whatever else a dataset holds.
double place_of(const char* purpose, std::string_view key, std::string_view candidate,
                std::uint64_t seed) {
  std::uint64_t h = hash_bytes(fmt::format("{} {}", purpose, seed));
  h = hash_bytes(candidate, hash_bytes(key, h));
  return static_cast<double>(h >> 11) * 0x1p-53;
}

// By task; of one that is not ours, or cannot be read, its key.
std::vector<std::string> reductions_of(const Dataset& d) {
  std::vector<std::string> out;
  for (const TaskInfo& t : d.tasks) {
    const Result<te::Dag> dag = te::dag_from_text(t.format == "tessera" ? t.definition : "");
    out.push_back(dag ? te::reduction_of(*dag) : t.key);
  }
  return out;
}

class Splitter {
 public:
  Splitter(const Dataset& d, const std::vector<SplitRow>& rows, const SplitOptions& o)
      : d_(d), rows_(rows), o_(o) {
    by_task_.resize(d.tasks.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      by_task_[static_cast<std::size_t>(rows[i].task)].push_back(i);
    }
    for (std::size_t t = 0; t < by_task_.size(); ++t) {
      if (!by_task_[t].empty()) tasks_.push_back(t);
    }
    split_.part.assign(rows.size(), kLeftOut);
    if (o.by_reduction) reductions_ = reductions_of(d);
  }

  Result<Split> run() {
    switch (o_.kind) {
      case SplitKind::kWithinTask:
        within_tasks();
        break;
      case SplitKind::kByTask:
        by_task(tasks_, o_.test);
        break;
      case SplitKind::kByNetwork:
        TESSERA_DO(by_network());
        break;
    }
    if (o_.quiet) keep_quiet();
    limit_training();
    return std::move(split_);
  }

 private:
  void give(std::size_t task, std::uint8_t part) {
    const bool enough = part != kTest || timed(task) >= kLeastTested;
    for (const std::size_t i : by_task_[task]) split_.part[i] = enough ? part : kLeftOut;
  }

  std::size_t timed(std::size_t task) const {
    return static_cast<std::size_t>(std::count_if(by_task_[task].begin(), by_task_[task].end(),
                                                  [&](std::size_t i) { return rows_[i].timed; }));
  }

  void keep_quiet() {
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      if (!rows_[i].quiet) split_.part[i] = kLeftOut;
    }
  }

  void within_tasks() {
    for (const std::size_t t : tasks_) {
      const bool tested = timed(t) >= kLeastTested;
      for (const std::size_t i : by_task_[t]) {
        const std::uint8_t part = part_at(rows_[i].part, o_.test);
        split_.part[i] = part == kTest && !tested ? kLeftOut : part;
      }
    }
  }

  std::uint8_t part_at(double place, double test_share) const {
    if (place < test_share) return kTest;
    return place < test_share + o_.validation ? kValidation : kTrain;
  }

  double task_place(const char* purpose, std::size_t task) const {
    const std::string& key = o_.by_reduction ? reductions_[task] : d_.tasks[task].key;
    return place_of(purpose, key, "", o_.seed);
  }

  void by_task(const std::vector<std::size_t>& tasks, double test_share) {
    std::vector<std::size_t> training;
    bool validates = o_.validation <= 0;
    for (const std::size_t t : tasks) {
      const std::uint8_t part = part_at(task_place(kPart, t), test_share);
      give(t, part);
      validates = validates || part == kValidation;
      if (part == kTrain) training.push_back(t);
    }
    // Early stopping needs something to look at, also with a handful of tasks.
    if (validates || training.size() < 2) return;
    give(*std::min_element(training.begin(), training.end(),
                           [&](std::size_t a, std::size_t b) { return before(kPart, a, b); }),
         kValidation);
  }

  bool before(const char* purpose, std::size_t a, std::size_t b) const {
    return std::pair(task_place(purpose, a), a) < std::pair(task_place(purpose, b), b);
  }

  Result<void> by_network() {
    TESSERA_TRY(const std::vector<std::string> keys, d_.tasks_of(o_.holdout));
    const std::set<std::string> held(keys.begin(), keys.end());
    std::set<std::string> reductions;  // of what is held out, with records or not
    for (std::size_t t = 0; t < d_.tasks.size() && o_.by_reduction; ++t) {
      if (held.contains(d_.tasks[t].key)) reductions.insert(reductions_[t]);
    }
    std::vector<std::size_t> rest;
    for (const std::size_t t : tasks_) {
      if (held.contains(d_.tasks[t].key)) {
        give(t, kTest);
      } else if (o_.by_reduction && reductions.contains(reductions_[t])) {
        give(t, kLeftOut);
      } else {
        rest.push_back(t);
      }
    }
    by_task(rest, 0);
    return {};
  }

  void limit_training() {
    if (o_.most_tasks == 0 && o_.most_per_task == 0) return;
    std::vector<std::size_t> training;
    for (const std::size_t t : tasks_) {
      const bool any = std::any_of(by_task_[t].begin(), by_task_[t].end(),
                                   [&](std::size_t i) { return split_.part[i] == kTrain; });
      if (any) training.push_back(t);
    }
    std::sort(training.begin(), training.end(),
              [&](std::size_t a, std::size_t b) { return before(kOrder, a, b); });
    for (std::size_t n = 0; n < training.size(); ++n) {
      const bool kept = o_.most_tasks == 0 || n < o_.most_tasks;
      std::vector<std::pair<double, std::size_t>> order;
      for (const std::size_t i : by_task_[training[n]]) {
        if (split_.part[i] == kTrain) order.emplace_back(rows_[i].order, i);
      }
      std::sort(order.begin(), order.end());
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (!kept || (o_.most_per_task > 0 && i >= o_.most_per_task)) {
          split_.part[order[i].second] = kLeftOut;
        }
      }
    }
  }

  const Dataset& d_;
  const std::vector<SplitRow>& rows_;
  const SplitOptions& o_;
  std::vector<std::vector<std::size_t>> by_task_;
  std::vector<std::size_t> tasks_;       // with examples
  std::vector<std::string> reductions_;  // by task; where they matter
  Split split_;
};

}  // namespace

const char* to_text(SplitKind kind) {
  switch (kind) {
    case SplitKind::kWithinTask:
      return "within-task";
    case SplitKind::kByTask:
      return "by-task";
    case SplitKind::kByNetwork:
      return "by-network";
  }
  return "by-network";
}

Result<SplitKind> split_kind_from_text(const std::string& text) {
  std::string name = text;
  std::replace(name.begin(), name.end(), '_', '-');  // as notes of older weights have it
  for (const SplitKind kind : {SplitKind::kWithinTask, SplitKind::kByTask, SplitKind::kByNetwork}) {
    if (name == to_text(kind)) return kind;
  }
  return make_error(ErrorCode::kInvalidArgument, "no split '{}': within-task, by-task, by-network",
                    text);
}

Result<Split> split(const Dataset& dataset, const SplitOptions& options) {
  std::vector<SplitRow> rows;
  rows.reserve(dataset.examples.size());
  for (const Example& e : dataset.examples) rows.push_back(split_row(dataset, e, options.seed));
  return split(dataset, rows, options);
}

// One for all machines: a candidate is not tested on one and learned on another.
SplitRow split_row(const Dataset& header, const Example& e, std::uint64_t seed) {
  const std::string& key = header.tasks[static_cast<std::size_t>(e.task)].key;
  return {.task = e.task,
          .timed = e.seconds > 0,
          .quiet = e.quiet,
          .part = place_of(kPart, key, e.candidate, seed),
          .order = place_of(kOrder, key, e.candidate, seed)};
}

Result<Split> split(const Dataset& header, const std::vector<SplitRow>& rows,
                    const SplitOptions& options) {
  if (!(options.test >= 0 && options.validation >= 0 && options.test + options.validation <= 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "shares of {} and {} leave nothing to learn from", options.test,
                      options.validation);
  }
  return Splitter(header, rows, options).run();
}

void keep_unseen_reductions(const Dataset& dataset, Split* split) {
  const std::vector<std::string> reductions = reductions_of(dataset);
  const auto reduction = [&](std::size_t example) -> const std::string& {
    return reductions[static_cast<std::size_t>(dataset.examples[example].task)];
  };
  std::set<std::string> seen;
  for (std::size_t i = 0; i < split->part.size(); ++i) {
    if (split->part[i] == kTrain || split->part[i] == kValidation) seen.insert(reduction(i));
  }
  for (std::size_t i = 0; i < split->part.size(); ++i) {
    if (split->part[i] == kTest && seen.contains(reduction(i))) split->part[i] = kLeftOut;
  }
}

}  // namespace tessera::dataset
