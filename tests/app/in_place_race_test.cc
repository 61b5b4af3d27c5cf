#include "tessera/app/tune/in_place_race.h"

#include <cmath>
#include <map>

#include <gtest/gtest.h>

#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

decide::Candidate candidate(std::int32_t value) {
  decide::Candidate out;
  out.choice = {value};
  return out;
}

// By the gain that each candidate truly has: task, choice -> gain; 0: it fails.
using Truth = std::map<std::pair<std::size_t, std::int32_t>, double>;

void run(InPlaceRace& race, const Truth& truth, Rng* noise = nullptr) {
  for (auto draws = race.next(); !draws.empty(); draws = race.next()) {
    for (const InPlaceRace::Draw& d : draws) {
      const double gain = truth.at({d.task, d.candidate.choice[0]});
      const double seen_as = noise != nullptr ? gain * (0.95 + 0.1 * noise->uniform()) : gain;
      race.observe(d.task, d.candidate, gain > 0 ? std::optional(seen_as) : std::nullopt);
    }
  }
}

TEST(InPlaceRace, TheFastestOfEachTaskWins) {
  InPlaceRace race({{candidate(0), candidate(1), candidate(2)}, {candidate(7)}, {}});
  run(race, {{{0, 0}, 1.1}, {{0, 1}, 1.3}, {{0, 2}, 1.2}, {{1, 7}, 1.5}});
  EXPECT_EQ(race.winner(0)->candidate, candidate(1));
  EXPECT_EQ(race.winner(0)->gain, 1.3);
  EXPECT_TRUE(race.winner(0)->told);
  EXPECT_EQ(race.winner(1)->candidate, candidate(7));
  EXPECT_FALSE(race.winner(2));
  EXPECT_FALSE(race.runs(2));
}

TEST(InPlaceRace, TheDefaultStaysWhereNothingBeatsIt) {
  InPlaceRace race({{candidate(0), candidate(1)}, {candidate(2), candidate(3)}});
  run(race, {{{0, 0}, 0.9}, {{0, 1}, 1.001}, {{1, 2}, 0}, {{1, 3}, 0.99}});
  EXPECT_FALSE(race.winner(0));
  EXPECT_FALSE(race.winner(1));
}

TEST(InPlaceRace, WhatFailsOnceIsOut) {
  InPlaceRace race({{candidate(0), candidate(1)}});
  run(race, {{{0, 0}, 0}, {{0, 1}, 1.1}});
  EXPECT_EQ(race.winner(0)->candidate, candidate(1));
}

TEST(InPlaceRace, LuckInTheFirstBatchDoesNotDecide) {
  InPlaceRace race({{candidate(0)}});
  int batch = 0;
  for (auto draws = race.next(); !draws.empty(); draws = race.next())
    race.observe(0, candidate(0), ++batch == 1 ? 1.2 : 0.98);
  EXPECT_EQ(batch, 2) << "what does not replace the default need not tell a gain";
  EXPECT_FALSE(race.winner(0));
}

TEST(InPlaceRace, EndedEarlyItKeepsTheLeaderAndPromisesNothing) {
  InPlaceRace race({{candidate(0), candidate(1), candidate(2)}});
  ASSERT_EQ(race.next().size(), 3u) << "all entrants in one batch";
  race.observe(0, candidate(0), 1.1);
  race.observe(0, candidate(1), 1.2);
  EXPECT_EQ(race.winner(0)->candidate, candidate(1));
  EXPECT_EQ(race.winner(0)->gain, 1);
  EXPECT_FALSE(race.winner(0)->told);
}

// Many tasks whose candidates are all as fast as the default: what is told of those that seem
// faster is not what they seemed by.
TEST(InPlaceRace, TellsNoLuck) {
  constexpr std::size_t kTasks = 2000;
  std::vector<std::vector<decide::Candidate>> entrants(kTasks);
  Truth truth;
  for (std::size_t t = 0; t < kTasks; ++t) {
    for (std::int32_t c = 0; c < 6; ++c) {
      entrants[t].push_back(candidate(c));
      truth[{t, c}] = 1;
    }
  }
  InPlaceRace race(entrants);
  Rng noise(3);
  run(race, truth, &noise);
  double sum = 0;
  int winners = 0;
  for (std::size_t t = 0; t < kTasks; ++t) {
    if (const auto winner = race.winner(t)) {
      sum += winner->gain;
      ++winners;
    }
  }
  ASSERT_GT(winners, 500);
  EXPECT_NEAR(sum / winners, 1, 0.005);
}

}  // namespace
}  // namespace tessera::app
