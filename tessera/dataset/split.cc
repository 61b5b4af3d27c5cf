#include <algorithm>
#include <numeric>
#include <set>

#include "tessera/dataset/dataset.h"
#include "tessera/support/hash.h"
#include "tessera/support/rng.h"

namespace tessera::dataset {
namespace {

constexpr std::size_t kLeastTested = 16;

void shuffle(std::vector<std::size_t>* items, Rng& rng) {
  for (std::size_t i = items->size(); i > 1; --i) {
    std::swap((*items)[i - 1],
              (*items)[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
}

std::size_t share_of(double share, std::size_t count) {
  return std::min(count, static_cast<std::size_t>(share * static_cast<double>(count) + 0.5));
}

class Splitter {
 public:
  Splitter(const Dataset& d, const SplitOptions& o) : d_(d), o_(o), rng_(o.seed) {
    by_task_.resize(d.tasks.size());
    for (std::size_t i = 0; i < d.examples.size(); ++i) {
      by_task_[static_cast<std::size_t>(d.examples[i].task)].push_back(i);
    }
    for (std::size_t t = 0; t < by_task_.size(); ++t) {
      if (!by_task_[t].empty()) tasks_.push_back(t);
    }
    // In the order of keys: a dataset that gained tasks elsewhere splits its old ones alike.
    std::sort(tasks_.begin(), tasks_.end(),
              [&](std::size_t a, std::size_t b) { return d.tasks[a].key < d.tasks[b].key; });
    split_.part.assign(d.examples.size(), kLeftOut);
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
    limit_training();
    return std::move(split_);
  }

 private:
  void give(std::size_t task, std::uint8_t part) {
    const bool enough = part != kTest || timed(task) >= kLeastTested;
    for (const std::size_t i : by_task_[task]) split_.part[i] = enough ? part : kLeftOut;
  }

  std::size_t timed(std::size_t task) const {
    return static_cast<std::size_t>(
        std::count_if(by_task_[task].begin(), by_task_[task].end(),
                      [&](std::size_t i) { return d_.examples[i].seconds > 0; }));
  }

  void within_tasks() {
    for (const std::size_t t : tasks_) {
      std::vector<std::size_t> order = by_task_[t];
      shuffle(&order, rng_);
      const std::size_t test = timed(t) < kLeastTested ? 0 : share_of(o_.test, order.size());
      const std::size_t validation = share_of(o_.validation, order.size());
      for (std::size_t i = 0; i < order.size(); ++i) {
        split_.part[order[i]] = i < test ? kTest : i < test + validation ? kValidation : kTrain;
      }
    }
  }

  void by_task(std::vector<std::size_t> tasks, double test_share) {
    shuffle(&tasks, rng_);
    const std::size_t test = share_of(test_share, tasks.size());
    std::size_t validation = share_of(o_.validation, tasks.size());
    // Early stopping needs something to look at.
    if (validation == 0 && o_.validation > 0 && tasks.size() > test + 1) validation = 1;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      give(tasks[i], i < test ? kTest : i < test + validation ? kValidation : kTrain);
    }
  }

  Result<void> by_network() {
    TESSERA_TRY(const std::vector<std::string> keys, d_.tasks_of(o_.holdout));
    const std::set<std::string> held(keys.begin(), keys.end());
    std::vector<std::size_t> rest;
    for (const std::size_t t : tasks_) {
      if (held.contains(d_.tasks[t].key)) {
        give(t, kTest);
      } else {
        rest.push_back(t);
      }
    }
    by_task(std::move(rest), 0);
    return {};
  }

  void limit_training() {
    std::vector<std::size_t> training;
    for (const std::size_t t : tasks_) {
      const bool any = std::any_of(by_task_[t].begin(), by_task_[t].end(),
                                   [&](std::size_t i) { return split_.part[i] == kTrain; });
      if (any) training.push_back(t);
    }
    shuffle(&training, rng_);
    for (std::size_t n = 0; n < training.size(); ++n) {
      const bool kept = o_.most_tasks == 0 || n < o_.most_tasks;
      std::vector<std::size_t> order;
      for (const std::size_t i : by_task_[training[n]]) {
        if (split_.part[i] == kTrain) order.push_back(i);
      }
      // Of its own seed: the examples of a task stay when only the number of tasks changes.
      Rng rng(hash_bytes(d_.tasks[training[n]].key, o_.seed));
      shuffle(&order, rng);
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (!kept || (o_.most_per_task > 0 && i >= o_.most_per_task)) {
          split_.part[order[i]] = kLeftOut;
        }
      }
    }
  }

  const Dataset& d_;
  const SplitOptions& o_;
  Rng rng_;
  std::vector<std::vector<std::size_t>> by_task_;
  std::vector<std::size_t> tasks_;  // with examples
  Split split_;
};

}  // namespace

const char* to_text(SplitKind kind) {
  switch (kind) {
    case SplitKind::kWithinTask:
      return "within_task";
    case SplitKind::kByTask:
      return "by_task";
    case SplitKind::kByNetwork:
      return "by_network";
  }
  return "by_network";
}

Result<SplitKind> split_kind_from_text(const std::string& text) {
  for (const SplitKind kind : {SplitKind::kWithinTask, SplitKind::kByTask, SplitKind::kByNetwork}) {
    if (name == to_text(kind)) return kind;
  }
  return make_error(ErrorCode::kInvalidArgument, "no split '{}': within_task, by_task, by_network",
                    text);
}

Result<Split> split(const Dataset& dataset, const SplitOptions& options) {
  if (!(options.test >= 0 && options.validation >= 0 && options.test + options.validation <= 1)) {
    return make_error(ErrorCode::kInvalidArgument,
                      "shares of {} and {} leave nothing to learn from", options.test,
                      options.validation);
  }
  return Splitter(dataset, options).run();
}

}  // namespace tessera::dataset
  std::string name = text;
  std::replace(name.begin(), name.end(), '-', '_');
