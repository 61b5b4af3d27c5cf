#include "tessera/app/tune/recorded_task.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "tessera/learn/lm/generate.h"
#include "tessera/scheduling/decide/recorded.h"
#include "tessera/scheduling/decide/walk.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

using Choice = std::vector<std::int32_t>;

class RecordedSchedules final : public space::Sketch {
 public:
  RecordedSchedules(const space::Sketch& sketch, std::vector<Choice> recorded)
      : sketch_(sketch), recorded_(std::move(recorded)) {
    name_ = sketch.name();
    points_ = sketch.points();
  }
  void walk(decide::Asker& asker) const override { recorded_.walk(sketch_, asker); }
  Result<schedule::Schedule> write(decide::Choice choice) const override {
    return sketch_.write(choice);
  }

 private:
  const space::Sketch& sketch_;
  decide::RecordedChoices recorded_;
};

class WholeChances final : public lm::Reader {
 public:
  WholeChances(const space::Space& whole, lm::Reader& reader) : whole_(whole), reader_(reader) {}

  Result<void> begin(const lm::Subject& subject, int rows, float quality) override {
    walks_.clear();
    // Which sketch is a question that has no walk.
    for (const auto& sketch : whole_.sketches()) {
      if (!subject.sketch.empty() && sketch->name() == subject.sketch) {
        walks_.assign(static_cast<std::size_t>(rows), decide::Walk(*sketch));
        break;
      }
    }
    return reader_.begin(subject, rows, quality);
  }

  Result<std::vector<float>> step(std::span<const lm::Step> steps) override {
    if (walks_.empty()) return reader_.step(steps);
    std::vector<lm::Step> all(steps.begin(), steps.end());
    for (lm::Step& s : all) {
      decide::Walk& walk = walks_[static_cast<std::size_t>(s.row)];
      if (s.previous >= 0) walk.take(s.previous);
      TESSERA_CHECK(!walk.done() && walk.next() == static_cast<std::size_t>(s.question),
                    "a record asks what its space does not");
      s.legal = walk.legal();
    }
    TESSERA_TRY(const std::vector<float> chances, reader_.step(all));
    std::vector<float> out;
    std::size_t first = 0;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::span<const std::int32_t> legal = all[i].legal;
      for (const std::int32_t value : steps[i].legal) {
        const auto at = std::lower_bound(legal.begin(), legal.end(), value) - legal.begin();
        out.push_back(chances[first + static_cast<std::size_t>(at)]);
      }
      first += legal.size();
    }
    return out;
  }

  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    const std::vector<decide::Walk> before = walks_;
    for (std::size_t i = 0; i < walks_.size(); ++i)
      walks_[i] = before.at(static_cast<std::size_t>(sources[i]));
    return reader_.copy_rows(sources);
  }

 private:
  const space::Space& whole_;
  lm::Reader& reader_;
  std::vector<decide::Walk> walks_;
};

// A tree of all answers that were told to it while it had a source.
class RecalledChances final : public lm::Reader {
 public:
  explicit RecalledChances(lm::Reader* source) : source_(source) {}
  void forget_source() { source_ = nullptr; }

  Result<void> begin(const lm::Subject& subject, int rows, float quality) override {
    const auto [root, fresh] = roots_.try_emplace(subject.sketch, nodes_.size());
    if (fresh) nodes_.emplace_back();
    at_.assign(static_cast<std::size_t>(rows), root->second);
    if (source_ == nullptr) return {};
    return source_->begin(subject, rows, quality);
  }

  Result<std::vector<float>> step(std::span<const lm::Step> steps) override {
    std::vector<float> told;
    if (source_ != nullptr) {
      TESSERA_TRY(told, source_->step(steps));
    }
    std::vector<float> out;
    for (const lm::Step& s : steps) {
      std::size_t& at = at_[static_cast<std::size_t>(s.row)];
      if (s.previous >= 0) at = child(at, s.previous);
      if (source_ != nullptr) {
        const auto first = told.begin() + static_cast<std::ptrdiff_t>(out.size());
        nodes_[at].chances.assign(first, first + static_cast<std::ptrdiff_t>(s.legal.size()));
      }
      TESSERA_CHECK(nodes_[at].chances.size() == s.legal.size(), "a question was not answered");
      out.insert(out.end(), nodes_[at].chances.begin(), nodes_[at].chances.end());
    }
    return out;
  }

  Result<void> copy_rows(std::span<const std::int32_t> sources) override {
    const std::vector<std::size_t> before = at_;
    for (std::size_t i = 0; i < at_.size(); ++i)
      at_[i] = before.at(static_cast<std::size_t>(sources[i]));
    if (source_ == nullptr) return {};
    return source_->copy_rows(sources);
  }

 private:
  struct Node {
    std::map<std::int32_t, std::size_t> children;  // by what was taken
    std::vector<float> chances;
  };

  std::size_t child(std::size_t node, std::int32_t taken) {
    const auto [it, fresh] = nodes_[node].children.try_emplace(taken, nodes_.size());
    const std::size_t out = it->second;
    if (fresh) nodes_.emplace_back();
    return out;
  }

  lm::Reader* source_;
  std::map<std::string, std::size_t> roots_;  // by sketch
  std::vector<Node> nodes_;
  std::vector<std::size_t> at_;  // of each row
};

}  // namespace

RecordedTask::RecordedTask(std::unique_ptr<space::Space> whole, std::vector<RecordedTrial> trials,
                           bool withheld)
    : whole_(std::move(whole)) {
  std::map<std::int32_t, std::map<Choice, RecordedTrial>> points;
  for (RecordedTrial& t : trials) {
    const std::int32_t sketch = t.candidate.sketch;
    whole_->sketches()[static_cast<std::size_t>(sketch)]->settle(t.candidate.choice);
    const bool ok = t.outcome == measure::Outcome::kOk && t.seconds > 0;
    if (ok) best_s_ = best_s_ > 0 ? std::min(best_s_, t.seconds) : t.seconds;
    const bool preferred = t.candidate == whole_->preferred();
    if (preferred && ok && default_s_ == 0) default_s_ = t.seconds;
    if (withheld && preferred) continue;
    const auto [it, added] = points[sketch].try_emplace(t.candidate.choice, t);
    // A whole measurement is worth more than a censored one, and a later one no more than the
    // first.
    if (!added && it->second.outcome != measure::Outcome::kOk) it->second = t;
  }
  std::erase_if(points, [](const auto& p) { return p.second.empty(); });
  if (points.empty()) return;
  std::vector<std::unique_ptr<space::Sketch>> sketches;
  for (auto& [sketch, list] : points) {
    const auto index = static_cast<std::int32_t>(sketches.size());
    std::vector<Choice> choices;
    for (auto& [choice, trial] : list) {
      choices.push_back(choice);
      trial.candidate.sketch = index;
      timed_ += measure::is_timed(trial.outcome) && trial.seconds > 0 ? 1 : 0;
      results_.emplace(trial.candidate, trial);
    }
    sketches.push_back(std::make_unique<RecordedSchedules>(
        whole_->sketch(static_cast<std::size_t>(sketch)), std::move(choices)));
  }
  recorded_ = std::make_unique<space::Space>(whole_->dag(), whole_->target(), std::move(sketches));
}

std::vector<RecordedTrial> RecordedTask::results(
    std::span<const decide::Candidate> candidates) const {
  std::vector<RecordedTrial> out;
  out.reserve(candidates.size());
  for (const decide::Candidate& c : candidates) out.push_back(results_.at(c));
  return out;
}

std::vector<decide::Candidate> RecordedTask::shuffled(std::uint64_t seed) const {
  std::vector<decide::Candidate> out;
  for (const auto& [c, unused] : results_) out.push_back(c);
  // The order of a hash table is nobody's promise.
  std::sort(out.begin(), out.end(), [](const decide::Candidate& a, const decide::Candidate& b) {
    return std::tie(a.sketch, a.choice) < std::tie(b.sketch, b.choice);
  });
  Rng rng(seed);
  for (std::size_t i = out.size(); i > 1; --i) {
    std::swap(out[i - 1], out[static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(i)))]);
  }
  return out;
}

std::unique_ptr<lm::Reader> whole_chances(const space::Space& whole, lm::Reader& reader) {
  return std::make_unique<WholeChances>(whole, reader);
}

Result<std::unique_ptr<lm::Reader>> recalled_chances(const RecordedTask& task, lm::Reader& reader) {
  WholeChances whole(task.whole(), reader);
  auto out = std::make_unique<RecalledChances>(&whole);
  lm::Generator generator(*task.recorded(), *out, {});
  TESSERA_DO(generator.chances_of(task.shuffled(1)));
  out->forget_source();
  return std::unique_ptr<lm::Reader>(std::move(out));
}

}  // namespace tessera::app
