#include "tessera/learn/lm/corpus.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <unordered_set>

#include "tessera/learn/lm/opaque_reader.h"
#include "tessera/learn/lm/subject.h"
#include "tessera/learn/lm/transcribe.h"

namespace tessera::lm {
namespace {

// Draws of a sketch in a row that were there already before it counts as told.
constexpr int kRepeats = 64;

double log2_size(const decide::Sketch& sketch) {
  double out = 0;
  for (const decide::Point& d : sketch.points())
    out += std::log2(static_cast<double>(d.values.size()));
  return out;
}

Result<space::Space> space_of(const dataset::TaskInfo& task, const dataset::MachineInfo& machine) {
  TESSERA_TRY(const target::Target target, target::target_from_text(machine.target));
  TESSERA_TRY(const te::Dag dag, te::dag_from_text(task.definition));
  return space::make_space(dag, target::code_target(target, machine.threads));
}

// The sketch of a record and the answers to its questions.
struct Told {
  std::int32_t sketch = 0;
  std::vector<Answer> answers;
};

Result<Told> tell(const space::Space& space, const std::string& text) {
  TESSERA_TRY(decide::Candidate c, space.parse(text));
  const decide::Sketch& sketch = *space.sketches()[static_cast<std::size_t>(c.sketch)];
  TESSERA_TRY(std::vector<Answer> answers, transcribe(sketch, c.choice));
  return Told{c.sketch, std::move(answers)};
}

// Of each, the share of the others that are worse; ties count half. The worst there is has 0.
std::vector<float> qualities(std::span<const float> worth) {
  std::vector<float> sorted(worth.begin(), worth.end());
  std::sort(sorted.begin(), sorted.end());
  const auto others = std::max(1.0f, static_cast<float>(worth.size()) - 1);
  std::vector<float> out;
  for (const float w : worth) {
    const auto [first, last] = std::equal_range(sorted.begin(), sorted.end(), w);
    const auto worse = static_cast<float>(first - sorted.begin());
    const auto equal = static_cast<float>(last - first - 1);
    out.push_back(worth.size() == 1 ? 1 : (worse + equal / 2) / others);
  }
  return out;
}

// By time; what failed has 0 however many did.
std::vector<float> measured_qualities(const dataset::Dataset& data,
                                      std::span<const std::size_t> examples) {
  std::vector<float> speeds;
  for (const std::size_t i : examples) {
    const float s = data.examples[i].seconds;
    speeds.push_back(s > 0 ? 1 / s : 0);
  }
  std::vector<float> out = qualities(speeds);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (speeds[i] == 0) out[i] = 0;
  }
  return out;
}

// The sentences of one space in a shard: subjects are added when they are needed.
class SpaceSentences {
 public:
  SpaceSentences(const space::Space& space, ShardWriter* out, Telling telling = {})
      : space_(space), scribe_(space), out_(*out), telling_(telling) {}

  Result<void> add(std::int32_t sketch, float quality, std::vector<Answer> answers) {
    const auto known = subjects_.find(sketch);
    if (known == subjects_.end()) {
      TESSERA_TRY(subjects_[sketch], out_.add(told(scribe_.subject(sketch))));
    }
    if (telling_.reversed) std::reverse(answers.begin(), answers.end());
    return out_.add(
        Sentence{.subject = subjects_[sketch], .quality = quality, .answers = std::move(answers)});
  }
  // Which sketch, as a sentence of its own.
  Result<void> add_choice(std::int32_t sketch, float quality) {
    if (space_.sketches().size() == 1) return {};
    if (choice_ < 0) {
      TESSERA_TRY(choice_, out_.add(told(scribe_.choice_of_sketch())));
    }
    Answer which{.question = 0, .taken = sketch, .legal = {}};
    which.legal.resize(space_.sketches().size());
    std::iota(which.legal.begin(), which.legal.end(), 0);
    return out_.add(
        Sentence{.subject = choice_, .quality = quality, .answers = {std::move(which)}});
  }

 private:
  Subject told(Subject subject) const {
    if (telling_.opaque) hide_numbers(&subject);
    return subject;
  }

  const space::Space& space_;
  Scribe scribe_;
  ShardWriter& out_;
  Telling telling_;
  std::map<std::int32_t, std::int32_t> subjects_;  // numbers in the shard, by sketch
  std::int32_t choice_ = -1;
};

class RecordedWriter {
 public:
  RecordedWriter(const dataset::Dataset& data, ShardWriter* out, Telling telling)
      : data_(data), out_(*out), telling_(telling) {}

  Result<void> write(std::span<const std::size_t> examples) {
    const dataset::Example& first = data_.examples[examples.front()];
    const dataset::TaskInfo& task = data_.tasks[static_cast<std::size_t>(first.task)];
    if (task.format != "tessera") {
      result_.unreadable += examples.size();
      return {};
    }
    const Result<space::Space> space =
        space_of(task, data_.machines[static_cast<std::size_t>(first.machine)]);
    if (!space) return space.error().with_context("task " + task.key);
    ++result_.tasks;
    SpaceSentences sentences(*space, &out_, telling_);
    const std::vector<float> quality = measured_qualities(data_, examples);
    for (std::size_t i = 0; i < examples.size(); ++i) {
      Result<Told> told = tell(*space, data_.examples[examples[i]].candidate);
      if (!told) {
        ++result_.unreadable;
        continue;
      }
      TESSERA_DO(sentences.add_choice(told->sketch, quality[i]));
      TESSERA_DO(sentences.add(told->sketch, quality[i], std::move(told->answers)));
      ++result_.sentences;
    }
    return {};
  }
  const RecordedResult& result() const { return result_; }

 private:
  const dataset::Dataset& data_;
  ShardWriter& out_;
  Telling telling_;
  RecordedResult result_;
};

}  // namespace

Result<std::size_t> write_drawn(const space::Space& space, std::size_t count, Rng& rng,
                                const Judge& judge, ShardWriter* out) {
  const auto& sketches = space.sketches();
  std::vector<double> weights;
  weights.reserve(sketches.size());
  for (const auto& s : sketches) weights.push_back(1 + log2_size(*s));
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<decide::Candidate> candidates;
  std::vector<std::vector<Answer>> answers;
  for (std::size_t s = 0; s < sketches.size(); ++s) {
    const auto share =
        static_cast<std::size_t>(std::ceil(static_cast<double>(count) * weights[s] / all));
    const std::size_t wanted = candidates.size() + std::min(share, count - candidates.size());
    std::unordered_set<decide::Candidate, decide::CandidateHash> seen;
    for (int repeats = 0; candidates.size() < wanted && repeats < kRepeats;) {
      std::vector<Answer> drawn;
      decide::Candidate c{.sketch = static_cast<std::int32_t>(s),
                          .choice = draw(*sketches[s], rng, &drawn)};
      if (!seen.insert(c).second) {
        ++repeats;
        continue;
      }
      repeats = 0;
      candidates.push_back(std::move(c));
      answers.push_back(std::move(drawn));
    }
  }
  std::vector<float> quality(candidates.size(), kUnknownQuality);
  if (judge && !candidates.empty()) {
    const std::vector<float> scores = judge(space, candidates);
    const bool told = scores.size() == candidates.size() &&
                      std::none_of(scores.begin(), scores.end(), [](float x) { return x != x; });
    if (told) quality = qualities(scores);
  }
  SpaceSentences sentences(space, out);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    if (quality[i] >= 0) TESSERA_DO(sentences.add_choice(candidates[i].sketch, quality[i]));
    TESSERA_DO(sentences.add(candidates[i].sketch, quality[i], std::move(answers[i])));
  }
  return candidates.size();
}

Result<RecordedResult> write_recorded(const dataset::Dataset& data, const std::vector<bool>& wanted,
                                      const std::function<bool(std::size_t, std::size_t)>& progress,
                                      ShardWriter* out, Telling telling) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::size_t>> places;
  for (std::size_t i = 0; i < data.examples.size(); ++i) {
    const dataset::Example& e = data.examples[i];
    if (wanted.empty() || wanted[i]) places[{e.task, e.machine}].push_back(i);
  }
  RecordedWriter writer(data, out, telling);
  std::size_t done = 0;
  for (const auto& [place, examples] : places) {
    if (progress && !progress(done++, places.size())) break;
    TESSERA_DO(writer.write(examples));
  }
  return writer.result();
}

}  // namespace tessera::lm
