#include "tessera/learn/lm/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_set>

#include "tessera/scheduling/decide/walk.h"
#include "tessera/support/parallel.h"

namespace tessera::lm {
namespace {

constexpr std::size_t kMostDraws = 4096;  // of a round
// Draws in a row that may bring nothing new before a sampler gives up, and how much bolder a round
// is than one that brought little.
constexpr std::size_t kBarrenDraws = 64;
constexpr double kBolder = 1.5;
constexpr double kLeastTemperature = 0.05;  // of what is drawn at all
constexpr std::size_t kRowsOfAThread = 16;  // that are worth waking one

}  // namespace

std::size_t draw_value(std::span<const float> log_probs, double temperature, double top_p,
                       Rng& rng) {
  const auto best = static_cast<std::size_t>(std::max_element(log_probs.begin(), log_probs.end()) -
                                             log_probs.begin());
  if (log_probs.size() == 1 || temperature < kLeastTemperature) return best;
  std::vector<double> chance(log_probs.size());
  for (std::size_t i = 0; i < chance.size(); ++i) {
    chance[i] = std::exp(static_cast<double>(log_probs[i] - log_probs[best]) / temperature);
  }
  const double all = std::accumulate(chance.begin(), chance.end(), 0.0);
  if (top_p < 1) {
    std::vector<std::size_t> order(chance.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return chance[a] > chance[b]; });
    double sum = 0;
    for (const std::size_t i : order) {
      const bool kept = sum < top_p * all;
      sum += chance[i];
      if (!kept) chance[i] = 0;
    }
  }
  double x = rng.uniform() * std::accumulate(chance.begin(), chance.end(), 0.0);
  for (std::size_t i = 0; i < chance.size(); ++i) {
    x -= chance[i];
    if (x < 0) return i;
  }
  return best;
}

// A sentence taking shape.
struct Generator::Row {
  decide::Walk walk;
  std::int32_t previous = -1;
  double log_prob = 0;
  bool thrown_away = false;
};

Step Generator::step_of(const Row& row, std::size_t number) {
  return {.row = static_cast<std::int32_t>(number),
          .question = static_cast<std::int32_t>(row.walk.next()),
          .previous = row.previous,
          .legal = row.walk.legal()};
}

Generator::Generator(const space::Space& space, Reader& reader, const GenerateOptions& options)
    : space_(space),
      reader_(reader),
      options_(options),
      scribe_(space),
      choice_(scribe_.choice_of_sketch()) {}

const Subject& Generator::subject(std::int32_t sketch) {
  const auto it = subjects_.find(sketch);
  if (it != subjects_.end()) return it->second;
  return subjects_.emplace(sketch, scribe_.subject(sketch)).first->second;
}

Result<void> Generator::choose_sketches() {
  if (!sketches_.empty()) return {};
  const std::size_t count = space_.sketches().size();
  if (count == 1) {
    sketches_ = {0};
    return {};
  }
  std::vector<std::int32_t> legal(count);
  std::iota(legal.begin(), legal.end(), 0);
  TESSERA_DO(reader_.begin(choice_, 1, options_.quality));
  const Step step{.row = 0, .question = 0, .previous = -1, .legal = legal};
  TESSERA_TRY(sketches_, reader_.step({&step, 1}));
  return {};
}

void Generator::take(const Step& step, std::span<const float> chances, const Pick& pick, Row* row) {
  const std::size_t at = pick(static_cast<std::size_t>(step.row), step, chances);
  row->log_prob += static_cast<double>(chances[at]);
  row->previous = step.legal[at];
  const std::vector<std::int32_t>& legal = row->walk.legal();
  row->thrown_away = !std::binary_search(legal.begin(), legal.end(), row->previous);
  if (!row->thrown_away) row->walk.take(row->previous);
}

Result<std::vector<Generator::Row>> Generator::write_rows(std::int32_t sketch, std::size_t count,
                                                          const Pick& pick) {
  const decide::Sketch& s = *space_.sketches()[static_cast<std::size_t>(sketch)];
  std::vector<Row> rows(count, Row{.walk = decide::Walk(s)});
  std::size_t most = 0;
  for (const decide::Point& d : s.points()) most = std::max(most, d.values.size());
  std::vector<std::int32_t> values(most);
  std::iota(values.begin(), values.end(), 0);
  TESSERA_DO(reader_.begin(subject(sketch), static_cast<int>(count), options_.quality));
  Workers workers(options_.threads);
  for (;;) {
    std::vector<Step> steps;
    for (std::size_t r = 0; r < count; ++r) {
      const decide::Walk& walk = rows[r].walk;
      if (walk.done() || rows[r].thrown_away) continue;
      const std::span<const std::int32_t> all(values.data(), walk.point().values.size());
      steps.push_back(step_of(rows[r], r));
      if (!options_.constrained) steps.back().legal = all;
    }
    if (steps.empty()) break;
    TESSERA_TRY(const std::vector<float> chances, reader_.step(steps));
    std::vector<std::size_t> first;
    for (std::size_t n = 0; const Step& step : steps) {
      first.push_back(n);
      n += step.legal.size();
    }
    workers.parts(steps.size(), kRowsOfAThread, [&](std::size_t i, std::size_t end) {
      for (; i < end; ++i) {
        const Step& step = steps[i];
        take(step, std::span(chances).subspan(first[i], step.legal.size()), pick,
             &rows[static_cast<std::size_t>(step.row)]);
      }
    });
  }
  for (Row& row : rows)
    row.log_prob += static_cast<double>(sketches_[static_cast<std::size_t>(sketch)]);
  return rows;
}

Result<void> Generator::write(std::int32_t sketch, std::size_t count, double temperature, Rng& rng,
                              std::vector<Generated>* out) {
  begun_ += count;
  // A generator of its own for each sentence: it does not matter which are written side by side.
  std::vector<Rng> dice;
  for (std::size_t i = 0; i < count; ++i) dice.push_back(rng.fork());
  const auto draw = [&](std::size_t row, const Step&, std::span<const float> own) {
    return draw_value(own, temperature, options_.top_p, dice[row]);
  };
  TESSERA_TRY(const std::vector<Row> rows, write_rows(sketch, count, draw));
  for (const Row& row : rows) {
    thrown_away_ += row.thrown_away ? 1 : 0;
    if (row.thrown_away) continue;
    out->push_back({{.sketch = sketch, .choice = row.walk.choice()}, row.log_prob});
  }
  return {};
}

Result<std::vector<double>> Generator::chances_of(std::span<const decide::Candidate> candidates) {
  TESSERA_DO(choose_sketches());
  std::map<std::int32_t, std::vector<std::size_t>> by_sketch;
  for (std::size_t i = 0; i < candidates.size(); ++i) by_sketch[candidates[i].sketch].push_back(i);
  const auto most = static_cast<std::size_t>(std::max(1, options_.rows));
  std::vector<double> out(candidates.size());
  for (const auto& [sketch, list] : by_sketch) {
    for (std::size_t first = 0; first < list.size(); first += most) {
      const std::size_t count = std::min(most, list.size() - first);
      const auto pick = [&, &numbers = list](std::size_t row, const Step& step,
                                             std::span<const float>) {
        const decide::Candidate& c = candidates[numbers[first + row]];
        const std::int32_t taken = c.choice[static_cast<std::size_t>(step.question)];
        return static_cast<std::size_t>(
            std::lower_bound(step.legal.begin(), step.legal.end(), taken) - step.legal.begin());
      };
      TESSERA_TRY(const std::vector<Row> rows, write_rows(sketch, count, pick));
      for (std::size_t i = 0; i < count; ++i) out[list[first + i]] = rows[i].log_prob;
    }
  }
  return out;
}

Result<std::vector<Generated>> Generator::sample(std::size_t n, Rng& rng, const Claim& claim) {
  TESSERA_DO(choose_sketches());
  std::unordered_set<decide::Candidate, decide::CandidateHash> seen;
  std::vector<Generated> out;
  double temperature = options_.temperature;
  for (std::size_t barren = 0; out.size() < n && barren < kBarrenDraws;) {
    // Sketches first: the sentences of one are written side by side.
    std::map<std::int32_t, std::size_t> wanted;
    const std::size_t draws = std::min(n - out.size(), kMostDraws);
    for (std::size_t i = 0; i < draws; ++i) {
      ++wanted[static_cast<std::int32_t>(draw_value(sketches_, temperature, options_.top_p, rng))];
    }
    std::vector<Generated> drawn;
    for (const auto& [sketch, count] : wanted) {
      for (std::size_t done = 0; done < count;) {
        const std::size_t rows =
            std::min(count - done, static_cast<std::size_t>(std::max(1, options_.rows)));
        TESSERA_DO(write(sketch, rows, temperature, rng, &drawn));
        done += rows;
      }
    }
    const std::size_t before = out.size();
    for (Generated& g : drawn) {
      if (seen.insert(g.candidate).second && claim(g.candidate)) out.push_back(std::move(g));
    }
    barren = out.size() == before ? barren + draws : 0;
    // Half of a round that repeats asks for bolder draws.
    if (options_.constrained && 2 * (out.size() - before) < drawn.size()) {
      temperature = std::max(temperature, kLeastTemperature) * kBolder;
    }
  }
  return out;
}

Result<void> Generator::beams_of(std::int32_t sketch, std::size_t width,
                                 std::vector<Generated>* out) {
  const decide::Sketch& s = *space_.sketches()[static_cast<std::size_t>(sketch)];
  const auto of_sketch = static_cast<double>(sketches_[static_cast<std::size_t>(sketch)]);
  std::vector<Row> rows(1, Row{.walk = decide::Walk(s)});
  TESSERA_DO(reader_.begin(subject(sketch), static_cast<int>(width), options_.quality));
  struct Branch {
    std::size_t row = 0;
    std::int32_t value = -1;  // -1: the sentence has ended
    double log_prob = 0;
  };
  for (;;) {
    std::vector<Step> steps;
    std::vector<Branch> branches;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      if (rows[r].walk.done()) {
        branches.push_back({r, -1, rows[r].log_prob});
        continue;
      }
      steps.push_back(step_of(rows[r], r));
    }
    if (steps.empty()) break;
    TESSERA_TRY(const std::vector<float> chances, reader_.step(steps));
    std::size_t at = 0;
    for (const Step& step : steps) {
      const auto r = static_cast<std::size_t>(step.row);
      for (const std::int32_t value : step.legal) {
        branches.push_back({r, value, rows[r].log_prob + static_cast<double>(chances[at++])});
      }
    }
    const auto likelier = [](const Branch& a, const Branch& b) { return a.log_prob > b.log_prob; };
    std::stable_sort(branches.begin(), branches.end(), likelier);
    if (branches.size() > width) branches.resize(width);
    std::vector<Row> next;
    std::vector<std::int32_t> sources(width, 0);
    for (const Branch& b : branches) {
      sources[next.size()] = static_cast<std::int32_t>(b.row);
      next.push_back(rows[b.row]);
      if (b.value < 0) continue;
      next.back().log_prob = b.log_prob;
      next.back().previous = b.value;
      next.back().walk.take(b.value);
    }
    TESSERA_DO(reader_.copy_rows(sources));
    rows = std::move(next);
  }
  for (const Row& row : rows) {
    out->push_back({{.sketch = sketch, .choice = row.walk.choice()}, of_sketch + row.log_prob});
  }
  return {};
}

Result<std::vector<Generated>> Generator::beams(std::size_t n, std::size_t width) {
  TESSERA_DO(choose_sketches());
  std::vector<Generated> out;
  for (std::size_t s = 0; s < space_.sketches().size(); ++s) {
    TESSERA_DO(beams_of(static_cast<std::int32_t>(s), std::max<std::size_t>(1, width), &out));
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const Generated& a, const Generated& b) { return a.log_prob > b.log_prob; });
  if (out.size() > n) out.resize(n);
  return out;
}

}  // namespace tessera::lm
