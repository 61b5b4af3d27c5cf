#include "tessera/scheduling/decide/space.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "tessera/scheduling/decide/walk.h"

namespace tessera::decide {
namespace {

constexpr int kTries = 100;
// Draws of a value before the legal ones are listed.
constexpr int kDraws = 8;
// Of a mutation: one point, or each further one with this probability.
constexpr double kAnother = 0.25;
// Of a redrawn value: a neighbour, or any.
constexpr double kNear = 0.7;
constexpr std::int64_t kReach = 2;

double size_of(const Sketch& sketch) {
  double size = 1;
  for (const Point& d : sketch.points()) size *= static_cast<double>(d.values.size());
  return size;
}

// Answers that are drawn: legal, and left to be made by one pass over the points.
class Drawing : public Asker {
 public:
  Drawing(const Sketch& sketch, Rng& rng) : sketch_(sketch), rng_(rng) {
    for (const Point& d : sketch.points()) choice_.push_back(d.preferred);
  }

  std::int32_t ask(std::size_t point, const Refusal& refusal) override {
    const Point& d = sketch_.points()[point];
    if (d.values.size() > 1) choice_[point] = draw(point, refusal);
    return choice_[point];
  }
  std::vector<std::int32_t> take() && { return std::move(choice_); }

 protected:
  virtual std::int32_t draw(std::size_t point, const Refusal& refusal) {
    return any(sketch_.points()[point], refusal);
  }

  std::int32_t any(const Point& d, const Refusal& refusal) {
    const auto count = static_cast<std::int32_t>(d.values.size());
    for (int i = 0; i < kDraws; ++i) {
      const auto v = static_cast<std::int32_t>(rng_.below(count));
      if (!refusal(v)) return v;
    }
    std::vector<std::int32_t> legal;
    for (std::int32_t v = 0; v < count; ++v) {
      if (!refusal(v)) legal.push_back(v);
    }
    TESSERA_CHECK(!legal.empty(), "sketch {} has no legal value of {}", sketch_.name(), d.name);
    return legal[static_cast<std::size_t>(rng_.below(std::ssize(legal)))];
  }

  // The legal value that is nearest to `old`.
  std::int32_t nearest(const Point& d, std::int32_t old, const Refusal& refusal) {
    const auto count = static_cast<std::int32_t>(d.values.size());
    for (std::int32_t n = 0; n < count; ++n) {
      if (old - n >= 0 && !refusal(old - n)) return old - n;
      if (old + n < count && !refusal(old + n)) return old + n;
    }
    return any(d, refusal);
  }

  const Sketch& sketch_;
  Rng& rng_;

 private:
  std::vector<std::int32_t> choice_;
};

// The values of a parent but for some points, which are drawn again.
class Mutation final : public Drawing {
 public:
  Mutation(const Sketch& sketch, Choice parent, Rng& rng)
      : Drawing(sketch, rng), parent_(parent), redrawn_(parent.size(), false) {
    do {
      redrawn_[static_cast<std::size_t>(rng.below(std::ssize(parent)))] = true;
    } while (rng.chance(kAnother));
  }

 private:
  std::int32_t draw(std::size_t point, const Refusal& refusal) override {
    const Point& d = sketch_.points()[point];
    const std::int32_t old = parent_[point];
    if (!redrawn_[point]) return refusal(old) ? nearest(d, old, refusal) : old;
    for (int i = 0; i < kDraws; ++i) {
      if (const std::int32_t v = redraw(d, old); !refusal(v)) return v;
    }
    return any(d, refusal);
  }

  std::int32_t redraw(const Point& d, std::int32_t old) {
    const auto count = static_cast<std::int64_t>(d.values.size());
    if (!d.labels.empty() || !rng_.chance(kNear)) {
      const auto other = static_cast<std::int32_t>(rng_.below(count - 1));
      return other < old ? other : other + 1;
    }
    const std::int64_t low = std::max<std::int64_t>(0, old - kReach);
    const std::int64_t high = std::min(count - 1, old + kReach);
    const auto other = static_cast<std::int32_t>(rng_.between(low, high - 1));
    return other < old ? other : other + 1;
  }

  Choice parent_;
  std::vector<bool> redrawn_;
};

// Each value from one of two parents.
class Crossing final : public Drawing {
 public:
  Crossing(const Sketch& sketch, Choice a, Choice b, Rng& rng)
      : Drawing(sketch, rng), first_parent_(a), second_parent_(b) {}
  bool found() const { return found_; }
  bool stopped() const override { return !found_; }

 private:
  std::int32_t draw(std::size_t point, const Refusal& refusal) override {
    const bool second = rng_.chance(0.5);
    const std::int32_t first = (second ? second_parent_ : first_parent_)[point],
                       other = (second ? first_parent_ : second_parent_)[point];
    if (!refusal(first)) return first;
    if (refusal(other)) found_ = false;
    return other;
  }

  Choice first_parent_, second_parent_;
  bool found_ = true;
};

// The values of a candidate as far as they are asked for.
class Following final : public Asker {
 public:
  Following(const Sketch& sketch, Choice choice) : given_(choice) {
    for (const Point& p : sketch.points()) choice_.push_back(p.preferred);
  }

  std::int32_t ask(std::size_t point, const Refusal& refusal) override {
    refused_ = refused_ || refusal(given_[point]) != nullptr;
    return choice_[point] = given_[point];
  }
  bool stopped() const override { return refused_; }
  std::vector<std::int32_t> take() && { return std::move(choice_); }

 private:
  Choice given_;
  std::vector<std::int32_t> choice_;
  bool refused_ = false;
};

std::vector<std::int32_t> drawn(const Sketch& sketch, Drawing&& drawing) {
  sketch.walk(drawing);
  return std::move(drawing).take();
}

// Numbers take a column each, words one each for every word.
std::size_t columns_of(const Point& d) {
  return d.labels.empty() ? d.values[0].size() : d.labels.size();
}

}  // namespace

Space::Space(std::vector<std::unique_ptr<Sketch>> sketches) : sketches_(std::move(sketches)) {
  TESSERA_CHECK(!sketches_.empty(), "a space has at least one sketch");
  double total = 0;
  width_ = sketches_.size();
  // Points of equal name in several sketches mean the same and share columns.
  std::map<std::string, std::pair<std::size_t, std::size_t>> known;  // name -> first, count
  for (const auto& sketch : sketches_) {
    total += 1 + std::log2(size_of(*sketch));
    weights_.push_back(total);
    std::vector<std::size_t>& columns = columns_.emplace_back();
    for (const Point& d : sketch->points()) {
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
  TESSERA_CHECK(c.choice.size() == sketch.points().size(), "a candidate of another space");
  return sketch;
}

Candidate Space::preferred() const {
  Candidate out;
  for (const Point& d : sketches_[0]->points()) out.choice.push_back(d.preferred);
  return out;
}

Result<void> Space::check(const Candidate& c) const { return sketch_of(c).check(c.choice); }

std::optional<Candidate> Space::settled(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  Following following(sketch, c.choice);
  sketch.walk(following);
  if (following.stopped()) return std::nullopt;
  return Candidate{.sketch = c.sketch, .choice = std::move(following).take()};
}

Candidate Space::sample(Rng& rng) const {
  const double x = rng.uniform() * weights_.back();
  const auto it = std::upper_bound(weights_.begin(), weights_.end(), x);
  const auto last = static_cast<std::ptrdiff_t>(weights_.size()) - 1;
  return sample(static_cast<std::int32_t>(std::min(it - weights_.begin(), last)), rng);
}

Candidate Space::sample(std::int32_t sketch, Rng& rng) const {
  const Sketch& s = *sketches_.at(static_cast<std::size_t>(sketch));
  return {.sketch = sketch, .choice = drawn(s, Drawing(s, rng))};
}

std::optional<Candidate> Space::mutate(const Candidate& parent, Rng& rng) const {
  const Sketch& sketch = sketch_of(parent);
  if (parent.choice.empty()) return std::nullopt;
  for (int i = 0; i < kTries; ++i) {
    Candidate c{.sketch = parent.sketch,
                .choice = drawn(sketch, Mutation(sketch, parent.choice, rng))};
    if (c != parent) return c;
  }
  return std::nullopt;
}

std::optional<Candidate> Space::cross(const Candidate& a, const Candidate& b, Rng& rng) const {
  if (a.sketch != b.sketch) return std::nullopt;
  const Sketch& sketch = sketch_of(a);
  TESSERA_CHECK(a.choice.size() == b.choice.size(), "candidates of different spaces");
  for (int i = 0; i < kTries; ++i) {
    Crossing crossing(sketch, a.choice, b.choice, rng);
    sketch.walk(crossing);
    if (crossing.found())
      return Candidate{.sketch = a.sketch, .choice = std::move(crossing).take()};
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
  std::int64_t legal = 0;
  for (Enumeration all(*this); all.next();) ++legal;
  return legal;
}

std::vector<float> Space::vector_of(const Candidate& c) const {
  const Sketch& sketch = sketch_of(c);
  std::vector<float> out(width_, 0);
  const auto s = static_cast<std::size_t>(c.sketch);
  out[s] = 1;
  for (std::size_t d = 0; d < c.choice.size(); ++d) {
    const Point& point = sketch.points()[d];
    const auto index = static_cast<std::size_t>(c.choice[d]);
    const std::size_t column = columns_[s][d];
    if (!point.labels.empty()) {
      out[column + index] = 1;
      continue;
    }
    const std::vector<std::int64_t>& numbers = point.values[index];
    for (std::size_t i = 0; i < numbers.size() && i < columns_of(point); ++i)
      out[column + i] = std::log2(1 + static_cast<float>(std::max<std::int64_t>(0, numbers[i])));
  }
  return out;
}

}  // namespace tessera::decide
