#include "tessera/space/space.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::space {
namespace {

constexpr int kTries = 400;
constexpr int kFreeTries = 100;
// Of a mutation: one decision, or each further one with this chance.
constexpr double kAnother = 0.25;
// Of a redrawn value: a neighbour, or any.
constexpr double kNear = 0.7;
constexpr std::int64_t kReach = 2;

double size_of(const Sketch& sketch) {
  double size = 1;
  for (const Decision& d : sketch.decisions()) size *= static_cast<double>(d.values.size());
  return size;
}

std::int32_t redraw(const Decision& d, std::int32_t old, Rng& rng) {
  const auto count = static_cast<std::int64_t>(d.values.size());
  if (count < 2) return 0;
  if (!d.labels.empty() || !rng.chance(kNear)) {
    const auto other = static_cast<std::int32_t>(rng.below(count - 1));
    return other < old ? other : other + 1;
  }
  const std::int64_t low = std::max<std::int64_t>(0, old - kReach);
  const std::int64_t high = std::min(count - 1, old + kReach);
  const auto other = static_cast<std::int32_t>(rng.between(low, high - 1));
  return other < old ? other : other + 1;
}

// Numbers take a column each, words one each for every word.
std::size_t columns_of(const Decision& d) {
  return d.labels.empty() ? d.values[0].size() : d.labels.size();
}

}  // namespace

Space::Space(te::Dag dag, target::Target target, std::vector<std::unique_ptr<Sketch>> sketches)
    : dag_(std::move(dag)), target_(std::move(target)), sketches_(std::move(sketches)) {
  TESSERA_CHECK(!sketches_.empty(), "a space has at least one sketch");
  double total = 0;
  width_ = sketches_.size();
  // Decisions of equal name in several sketches mean the same and share columns.
  std::map<std::string, std::pair<std::size_t, std::size_t>> known;  // name -> first, count
  for (const auto& sketch : sketches_) {
    total += 1 + std::log2(size_of(*sketch));
    weights_.push_back(total);
    std::vector<std::size_t>& columns = columns_.emplace_back();
    for (const Decision& d : sketch->decisions()) {
      const std::string key = d.name + (d.labels.empty() ? "" : "=");
      const auto it = known.find(key);
      if (it != known.end() && it->second.second == columns_of(d)) {
        columns.push_back(it->second.first);
        continue;
      }
      columns.push_back(width_);
      known[key] = {width_, columns_of(d)};
      width_ += columns_of(d);
    }
  }
}

const Sketch& Space::sketch_of(const Candidate& c) const {
  TESSERA_CHECK(c.sketch >= 0 && static_cast<std::size_t>(c.sketch) < sketches_.size(),
                "no sketch {}", c.sketch);
  const Sketch& sketch = *sketches_[static_cast<std::size_t>(c.sketch)];
  TESSERA_CHECK(c.choice.size() == sketch.decisions().size(), "a candidate of another space");
  return sketch;
}

const std::vector<Decision>& Space::decisions(const Candidate& c) const {
  return sketch_of(c).decisions();
}

Candidate Space::preferred() const {
  Candidate out;
  for (const Decision& d : sketches_[0]->decisions()) out.choice.push_back(d.preferred);
  return out;
}

Result<void> Space::check(const Candidate& c) const { return sketch_of(c).check(c.choice); }

Result<schedule::Schedule> Space::schedule(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  TESSERA_DO(sketch.check(c.choice));
  return sketch.write(c.choice);
}

std::optional<Candidate> Space::accepted(Candidate c) const {
  const Sketch& sketch = sketch_of(c);
  if (!sketch.check(c.choice)) return std::nullopt;
  sketch.settle(c.choice);
  return c;
}

std::optional<Candidate> Space::sample(Rng& rng) const {
  const double x = rng.uniform() * weights_.back();
  const auto it = std::upper_bound(weights_.begin(), weights_.end(), x);
  const auto last = static_cast<std::ptrdiff_t>(weights_.size()) - 1;
  return sample(static_cast<std::int32_t>(std::min(it - weights_.begin(), last)), rng);
}

std::optional<Candidate> Space::sample(std::int32_t sketch, Rng& rng) const {
  const std::vector<Decision>& decisions =
      sketches_.at(static_cast<std::size_t>(sketch))->decisions();
  Candidate c{.sketch = sketch, .choice = std::vector<std::int32_t>(decisions.size(), 0)};
  // Where legal points are rare, they lie around the preferred one: after some tries more and more
  // decisions take their preferred value.
  for (int i = 0; i < kTries; ++i) {
    const double settled =
        std::max(0.0, static_cast<double>(i - kFreeTries) / (kTries - kFreeTries));
    for (std::size_t d = 0; d < decisions.size(); ++d) {
      const auto count = static_cast<std::int64_t>(decisions[d].values.size());
      const auto drawn = static_cast<std::int32_t>(rng.below(count));
      c.choice[d] = i > kFreeTries && rng.chance(settled) ? decisions[d].preferred : drawn;
    }
    if (auto out = accepted(c)) return out;
  }
  return std::nullopt;
}

std::optional<Candidate> Space::mutate(const Candidate& parent, Rng& rng) const {
  const std::vector<Decision>& decisions = this->decisions(parent);
  if (decisions.empty()) return std::nullopt;
  for (int i = 0; i < kTries; ++i) {
    Candidate c = parent;
    do {
      const auto d =
          static_cast<std::size_t>(rng.below(static_cast<std::int64_t>(decisions.size())));
      c.choice[d] = redraw(decisions[d], c.choice[d], rng);
    } while (rng.chance(kAnother));
    if (auto out = accepted(std::move(c)); out && *out != parent) return out;
  }
  return std::nullopt;
}

std::optional<Candidate> Space::cross(const Candidate& a, const Candidate& b, Rng& rng) const {
  if (a.sketch != b.sketch) return std::nullopt;
  TESSERA_CHECK(a.choice.size() == b.choice.size(), "candidates of different spaces");
  for (int i = 0; i < kTries / 4; ++i) {
    Candidate c = a;
    for (std::size_t d = 0; d < c.choice.size(); ++d) {
      if (rng.chance(0.5)) c.choice[d] = b.choice[d];
    }
    if (auto out = accepted(std::move(c))) return out;
  }
  return std::nullopt;
}

double Space::size() const {
  double size = 0;
  for (const auto& sketch : sketches_) size += size_of(*sketch);
  return size;
}

std::optional<std::int64_t> Space::count_legal(std::int64_t limit) const {
  if (size() > static_cast<double>(limit)) return std::nullopt;
  const auto count = static_cast<std::int64_t>(size());
  std::int64_t legal = 0;
  for (std::int64_t n = 0; n < count; ++n) legal += check(at(n)).ok() ? 1 : 0;
  return legal;
}

Candidate Space::at(std::int64_t n) const {
  Candidate c;
  for (std::size_t s = 0; s < sketches_.size(); ++s) {
    const double size = size_of(*sketches_[s]);
    if (s + 1 < sketches_.size() && static_cast<double>(n) >= size) {
      n -= static_cast<std::int64_t>(size);
      continue;
    }
    const std::vector<Decision>& decisions = sketches_[s]->decisions();
    c.sketch = static_cast<std::int32_t>(s);
    c.choice.resize(decisions.size());
    for (std::size_t d = decisions.size(); d-- > 0;) {
      const auto count = static_cast<std::int64_t>(decisions[d].values.size());
      c.choice[d] = static_cast<std::int32_t>(n % count);
      n /= count;
    }
    break;
  }
  return c;
}

std::vector<float> Space::vector_of(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  std::vector<float> out(width_, 0);
  const auto s = static_cast<std::size_t>(c.sketch);
  out[s] = 1;
  for (std::size_t d = 0; d < c.choice.size(); ++d) {
    const Decision& decision = sketch.decisions()[d];
    const auto index = static_cast<std::size_t>(c.choice[d]);
    const std::size_t column = columns_[s][d];
    if (!decision.labels.empty()) {
      out[column + index] = 1;
      continue;
    }
    const std::vector<std::int64_t>& numbers = decision.values[index];
    for (std::size_t i = 0; i < numbers.size() && i < columns_of(decision); ++i)
      out[column + i] = std::log2(1 + static_cast<float>(std::max<std::int64_t>(0, numbers[i])));
  }
  return out;
}

}  // namespace tessera::space
