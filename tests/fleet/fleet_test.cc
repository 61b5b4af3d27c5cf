// Tunings and agents of one process on a queue of either engine.
#include <algorithm>
#include <cmath>
#include <set>

#include "tessera/trials/fleet/simulate.h"
#include "tessera/trials/fleet/work.h"
#include "tests/fleet/fleet_case.h"
#include "tests/fleet/history.h"
#include "tests/record/both_engines.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;
using measure::Measurement;
using measure::Outcome;
using record::EngineKind;

class FleetTest : public record::BothEngines {
 protected:
  Queue open() {
    EXPECT_TRUE(record::Database::open(place("a")).ok());
    return Queue::open(place("a")).value();
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, FleetTest,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         record::engine_name);

TEST_P(FleetTest, TwoAgentsMeasureForOneTuning) {
  std::atomic<int> of_one = 0, of_two = 0;
  const auto counted = [](std::atomic<int>* count) {
    return [count](const measure::Trial& t, bool together, Measurement* m) {
      ++*count;
      std::this_thread::sleep_for(2ms);
      answer_quickly(t, together, m);
    };
  };
  ThreadAgent one(agent_at(place("a"), "one", counted(&of_one)));
  ThreadAgent two(agent_at(place("a"), "two", counted(&of_two)));
  std::vector<Measurement> all;
  {
    auto tuning = tuning_at(fleet_at(place("a")));
    ASSERT_TRUE(tuning.ok()) << tuning.error().message;
    // Both are there before the first trial.
    while ((*tuning)->capacity().machines < 2) {
      (*tuning)->submit(trials_of(0, 1));
      (void)collect_all(**tuning);
    }
    of_one = of_two = 0;
    (*tuning)->submit(trials_of(100, 200));
    EXPECT_EQ((*tuning)->pending(), 200u);
    all = collect_all(**tuning);
    EXPECT_TRUE((*tuning)->capacity().elsewhere);
  }
  std::set<std::uint64_t> ids;
  for (const Measurement& m : all) {
    ids.insert(m.id);
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
    EXPECT_EQ(m.seconds(), 1e-3);
    EXPECT_EQ(m.calibration_s, 1e-5);
  }
  EXPECT_EQ(all.size(), 200u);
  EXPECT_EQ(ids.size(), 200u);
  EXPECT_EQ(of_one + of_two, 200);
  EXPECT_GT(of_one, 0);
  EXPECT_GT(of_two, 0);
  EXPECT_EQ(one.end()->ended_by, "a signal");
  EXPECT_EQ(two.end()->late, 0);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
  Queue queue = open();
  EXPECT_TRUE(Roster(queue).agents()->empty()) << "they took their leave";
  EXPECT_TRUE(Roster(queue).tunings()->empty());
}

TEST_P(FleetTest, WhatIsComparedRunsOnOneMachineAndComesInOrder) {
  std::atomic<bool> first_is_final = false;
  ThreadAgent agent(agent_at(place("a"), "one", [&](const auto& t, bool together, Measurement* m) {
    first_is_final = t.final;
    answer_quickly(t, together, m);
  }));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  std::vector<measure::Trial> trials = trials_of(7, 3);
  trials[1].id = 7;  // as those of a caller that numbers them otherwise
  trials[2].steps = schedule::schedule_from_text("split C i 4 tail=peel\n").value();
  tuning->submit(trials_of(50, 4));
  const std::vector<Measurement> compared = tuning->compare(trials);
  ASSERT_EQ(compared.size(), 3u);
  EXPECT_EQ(compared[0].id, 7u);
  EXPECT_EQ(compared[1].seconds(), 1e-3);
  EXPECT_EQ(compared[2].seconds(), 2e-3);
  EXPECT_TRUE(tuning->compare({}).empty());
  EXPECT_EQ(collect_all(*tuning).size(), 4u);
}

// A millisecond is a thousandth of it for an agent that lies.
TEST_P(FleetTest, AnotherAgentChecksWhatOneReportsAsBest) {
  std::atomic<int> lies = 0;
  ThreadAgent liar(agent_at(place("a"), "liar", [&](const auto&, bool, Measurement* m) {
    ++lies;
    m->samples_s = {1e-6};
  }));
  std::vector<std::string> notes;
  FleetOptions fleet = fleet_at(place("a"));
  fleet.note = [&](const std::string& line) {
    if (line.find(" reported ") != std::string::npos) notes.push_back(line);
  };
  auto tuning = tuning_at(fleet).value();
  tuning->submit(trials_of(0, 4));
  ASSERT_EQ(collect_all(*tuning).size(), 4u);
  std::vector<measure::Trial> trials = trials_of(0, 2);
  trials[1].steps = schedule::schedule_from_text("split C i 4 tail=peel\n").value();
  EXPECT_EQ(tuning->compare(trials)[0].seconds(), 1e-6) << "there is no other";
  EXPECT_TRUE(notes.empty());

  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.tunings()->at(0).id;
  {
    ThreadAgent honest(agent_at(place("a"), "honest", answer_quickly));
    while (roster.helpers(id)->size() < 2) std::this_thread::sleep_for(5ms);
    lies = 0;
    for (int i = 0; i < 5; ++i) {
      const std::vector<Measurement> compared = tuning->compare(trials);
      EXPECT_EQ(compared[0].seconds(), 1e-3);
      EXPECT_EQ(compared[1].seconds(), 2e-3);
    }
    EXPECT_EQ(lies, 0);
    ASSERT_EQ(notes.size(), 1u) << "once of each agent";
    EXPECT_EQ(notes[0],
              "agent liar reported 1 us for what agent honest measures as 1000 us; none of its "
              "results count in this tuning any more");
  }
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(FleetTest, AnAgentThatCouldCheckAndGoesAwayIsNotWaitedFor) {
  ThreadAgent agent(agent_at(place("a"), "one", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  const std::vector<measure::Trial> trials = trials_of(0, 1);
  tuning->submit(trials);
  ASSERT_EQ(collect_all(*tuning).size(), 1u);
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.tunings()->at(0).id;
  const std::int64_t idle = roster.add_agent({.name = "idle"}).value();
  ASSERT_TRUE(roster.join(id, idle, 0).value());
  std::atomic<bool> compared = false, left_early = false;
  std::thread leaving([&] {
    std::this_thread::sleep_for(300ms);
    left_early = !compared;
    EXPECT_TRUE(Roster(queue).remove_agent(idle).ok());
  });
  EXPECT_EQ(tuning->compare(trials)[0].seconds(), 1e-3);
  compared = true;
  leaving.join();
  EXPECT_TRUE(left_early) << "it was not waited for";
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// A killed one is taken to be gone only after half a minute.
TEST_P(FleetTest, AnAgentThatIsSilentIsNotWaitedForToCheck) {
  ThreadAgent agent(agent_at(place("a"), "one", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  ASSERT_EQ(collect_all(*tuning).size(), 1u);
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t silent = roster.add_agent({.name = "silent"}).value();
  ASSERT_TRUE(roster.join(roster.tunings()->at(0).id, silent, 0).value());
  for (int i = 0; i < 2; ++i) EXPECT_EQ(tuning->compare(trials_of(0, 1))[0].seconds(), 1e-3);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(FleetTest, AnAgentWhoseCodeGivesWrongResultsElsewhereIsOut) {
  ThreadAgent liar(agent_at(place("a"), "liar", answer_quickly));
  std::string note;
  FleetOptions fleet = fleet_at(place("a"));
  fleet.note = [&](const std::string& line) { note = line; };
  auto tuning = tuning_at(fleet).value();
  tuning->submit(trials_of(0, 1));
  EXPECT_EQ(collect_all(*tuning).at(0).outcome, Outcome::kOk);
  std::atomic<int> checked = 0;
  ThreadAgent honest(agent_at(place("a"), "honest", [&](const auto&, bool, Measurement* m) {
    ++checked;
    m->outcome = Outcome::kWrongResult;
    m->reason = "C[3] is 1, not 2";
  }));
  Queue queue = open();
  const std::int64_t id = Roster(queue).tunings()->at(0).id;
  while (Roster(queue).helpers(id)->size() < 2) std::this_thread::sleep_for(5ms);
  const std::vector<Measurement> compared = tuning->compare(trials_of(0, 1));
  EXPECT_EQ(compared.at(0).outcome, Outcome::kWrongResult);
  EXPECT_EQ(compared.at(0).reason, "C[3] is 1, not 2");
  EXPECT_EQ(checked, 1);
  EXPECT_EQ(note,
            "agent liar reported 1000 us for what agent honest measures as wrong_result; none of "
            "its results count in this tuning any more");
}

TEST_P(FleetTest, TenAgentsBeginAtOnceWhereNothingIs) {
  constexpr int kAgents = 10, kTrials = 60;
  std::atomic<int> measured = 0;
  const auto answer = [&](const measure::Trial& t, bool together, Measurement* m) {
    ++measured;
    answer_quickly(t, together, m);
  };
  const std::string where = place("a");
  std::vector<std::unique_ptr<ThreadAgent>> agents;
  for (int i = 0; i < kAgents; ++i) {
    agents.push_back(std::make_unique<ThreadAgent>(agent_at(where, std::to_string(i), answer)));
  }
  {
    auto tuning = tuning_at(fleet_at(where));
    ASSERT_TRUE(tuning.ok()) << tuning.error().message;
    (*tuning)->submit(trials_of(0, kTrials));
    EXPECT_EQ(collect_all(**tuning).size(), std::size_t{kTrials});
    Queue queue = open();
    const std::int64_t id = Roster(queue).tunings()->at(0).id;
    const auto helping = [&] { return std::ssize(*Roster(queue).helpers(id)); };
    for (int i = 0; i < 1500 && helping() < kAgents; ++i) std::this_thread::sleep_for(20ms);
    EXPECT_EQ(helping(), kAgents);
    EXPECT_EQ(std::ssize(*Roster(queue).agents()), kAgents);
  }
  for (const auto& agent : agents) {
    const Result<AgentTotals>& totals = agent->end();
    EXPECT_TRUE(totals.ok()) << totals.error().message;
  }
  EXPECT_GE(measured, kTrials);
  EXPECT_EQ(fault_of_history(where, true), "");
}

TEST_P(FleetTest, SaysWhichAgentsAreThereAndWhyNoneFits) {
  FleetOptions fleet = fleet_at(place("a"), "label=rack=3");
  fleet.patience_s = 0.2;
  const auto nobody = tuning_at(fleet);
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(nobody.error().message.find("there is no agent"), std::string::npos);
  ThreadAgent agent(agent_at(place("a"), "lonely", answer_quickly));
  fleet.patience_s = 1;
  const auto other = tuning_at(fleet);
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("lonely (has no label rack=3)"), std::string::npos)
      << other.error().message;
  Queue queue = open();
  EXPECT_TRUE(Roster(queue).tunings()->empty()) << "nothing stays behind";
}

TEST_P(FleetTest, ATuningHasAtMostSoManyAgents) {
  ThreadAgent one(agent_at(place("a"), "one", answer_quickly));
  ThreadAgent two(agent_at(place("a"), "two", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"), "1")).value();
  for (int i = 0; i < 3; ++i) {
    tuning->submit(trials_of(0, 20));
    EXPECT_EQ(collect_all(*tuning).size(), 20u);
  }
  Queue queue = open();
  const std::int64_t id = Roster(queue).tunings()->at(0).id;
  EXPECT_EQ(Roster(queue).helpers(id)->size(), 1u);
}

TEST_P(FleetTest, NothingStaysWhenATuningIsCancelledOrEnds) {
  std::atomic<int> measured = 0;
  ThreadAgent agent(agent_at(place("a"), "slow", [&](const auto& t, bool together, Measurement* m) {
    ++measured;
    std::this_thread::sleep_for(20ms);
    answer_quickly(t, together, m);
  }));
  Queue queue = open();
  {
    auto tuning = tuning_at(fleet_at(place("a"))).value();
    tuning->submit(trials_of(0, 500));
    while (measured == 0) std::this_thread::sleep_for(5ms);
    tuning->cancel();
    EXPECT_EQ(tuning->pending(), 0u);
    EXPECT_EQ(queue.counts()->queued + queue.counts()->claimed, 0);
    // It works on.
    tuning->submit(trials_of(900, 2));
    EXPECT_EQ(collect_all(*tuning).size(), 2u);
    tuning->submit(trials_of(0, 500));
  }
  EXPECT_EQ(queue.counts()->queued + queue.counts()->claimed, 0);
  EXPECT_GT(queue.counts()->cancelled, 500);
  EXPECT_TRUE(agent.end().ok());
  EXPECT_LT(measured, 500);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(FleetTest, AnAgentThatIsStoppedGivesBackAndOneThatIsDrainedFinishes) {
  std::atomic<int> begun = 0;
  const auto slowly = [&](const auto& t, bool together, Measurement* m) {
    ++begun;
    std::this_thread::sleep_for(20ms);
    answer_quickly(t, together, m);
  };
  auto first = std::make_unique<ThreadAgent>(agent_at(place("a"), "first", slowly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  Queue queue = open();
  tuning->submit(trials_of(0, 60));
  while (begun < 3) std::this_thread::sleep_for(5ms);
  const Result<AgentTotals> totals = first->end();
  ASSERT_TRUE(totals.ok());
  EXPECT_GT(totals->given_back, 0);
  EXPECT_EQ(queue.counts()->claimed, 0);
  ThreadAgent second(agent_at(place("a"), "second", slowly));
  EXPECT_EQ(collect_all(*tuning).size(), 60u);
  EXPECT_EQ(Roster(queue).drain("second").value(), 1);
  EXPECT_EQ(Roster(queue).drain("nobody").value(), 0);
  EXPECT_EQ(second.join()->ended_by, "drained");
  EXPECT_EQ(queue.counts()->taken_over, 0);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// As when the answer to its claim was lost with the line.
TEST_P(FleetTest, WhatAnAgentDoesNotKnowThatItHoldsIsGivenBack) {
  std::atomic<bool> begun = false, go_on = false;
  ThreadAgent agent(agent_at(place("a"), "one", [&](const auto& t, bool together, Measurement* m) {
    begun = true;
    while (!go_on) std::this_thread::sleep_for(2ms);
    answer_quickly(t, together, m);
  }));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  while (!begun) std::this_thread::sleep_for(2ms);
  tuning->submit(trials_of(1, 1));
  Queue queue = open();
  const std::int64_t id = Roster(queue).agents()->at(0).id;
  EXPECT_EQ(queue.claim(id, 1, 1s)->size(), 1u);
  go_on = true;
  EXPECT_EQ(collect_all(*tuning).size(), 2u);
  EXPECT_EQ(agent.end()->given_back, 1);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(FleetTest, TwoTuningsShareAnAgent) {
  ThreadAgent agent(agent_at(place("a"), "one", answer_quickly));
  auto one = tuning_at(fleet_at(place("a"))).value();
  auto two = tuning_at(fleet_at(place("a"))).value();
  one->submit(trials_of(0, 100));
  two->submit(trials_of(500, 100));
  std::size_t of_one = 0, of_two = 0;
  while (one->pending() + two->pending() > 0) {
    of_one += one->collect(0.02).size();
    for (const Measurement& m : two->collect(0.02)) {
      EXPECT_GE(m.id, 500u);
      ++of_two;
    }
  }
  EXPECT_EQ(of_one, 100u);
  EXPECT_EQ(of_two, 100u);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// What anybody who can write to the database may have written.
TEST_P(FleetTest, AnAgentRefusesWhatItCannotTrust) {
  Queue queue = open();
  Roster roster(queue);
  ThreadAgent agent(agent_at(place("a"), "careful", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  EXPECT_EQ(collect_all(*tuning).size(), 1u);
  const std::int64_t id = roster.tunings()->at(0).id;
  ASSERT_TRUE(queue
                  .enqueue(id, {{"\x7f"
                                 "ELF"},
                                {R"({"trials":[{"task":"t","schedule":"launch missiles",)"
                                 R"("incumbent_s":0,"final":true}]})"}})
                  .ok());
  std::vector<TrialResult> refused;
  while (refused.size() < 2) {
    refused = queue.results(id).value();
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_NE(refused[0].payload.find("not a JSON object"), std::string::npos);
  EXPECT_NE(refused[1].payload.find("refused"), std::string::npos) << refused[1].payload;
  TuningRow row = roster.tunings()->at(0);
  const std::int64_t hostile = roster.open_tuning(row, R"({"target":"host"})").value();
  std::vector<HelperRow> helpers;
  while (helpers.empty()) helpers = roster.helpers(hostile).value();
  EXPECT_NE(helpers[0].refused.find("'threads' is missing"), std::string::npos)
      << helpers[0].refused;
  ASSERT_TRUE(roster.close_tuning(hostile, queue).ok());
}

// ... and what a tuner must not believe of an agent.
TEST_P(FleetTest, ATunerTakesNoNonsenseForAMeasurement) {
  ThreadAgent agent(
      agent_at(place("a"), "liar", [](const auto&, bool, Measurement* m) { m->samples_s = {-1}; }));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  const std::vector<Measurement> all = collect_all(*tuning);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].outcome, Outcome::kWorkerLost);
  EXPECT_NE(all[0].reason.find("agent liar reports what cannot be read"), std::string::npos)
      << all[0].reason;
}

TEST_P(FleetTest, ATuningWhoseTunerIsGoneIsTidiedAway) {
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.open_tuning({.name = "left"}, "").value();
  ASSERT_TRUE(queue.enqueue(id, {{"p"}, {"p"}}).ok());
  ASSERT_TRUE(roster.tidy(queue).ok());
  EXPECT_EQ(queue.counts()->queued, 2);
  ASSERT_TRUE(queue.connection()
                  ->execute(fmt::format("UPDATE tunings SET seen = seen - {}", kTuningGoneMs + 1))
                  .ok());
  ASSERT_TRUE(roster.tidy(queue).ok());
  EXPECT_EQ(queue.counts()->queued, 0);
  EXPECT_EQ(queue.counts()->cancelled, 2);
}

// As after a laptop's sleep.
TEST_P(FleetTest, ATunerThatWasTakenToBeGoneGoesOn) {
  ThreadAgent agent(agent_at(place("a"), "one", [](const auto& t, bool together, Measurement* m) {
    std::this_thread::sleep_for(5ms);
    answer_quickly(t, together, m);
  }));
  std::atomic<int> said = 0;
  FleetOptions fleet = fleet_at(place("a"));
  fleet.note = [&](const std::string& line) {
    if (line.find("queued again") != std::string::npos) ++said;
  };
  auto tuning = tuning_at(fleet).value();
  tuning->submit(trials_of(0, 60));
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.tunings()->at(0).id;
  EXPECT_TRUE(roster.tuning_seen(id).value());
  ASSERT_TRUE(roster.close_tuning(id, queue).ok());
  EXPECT_FALSE(roster.tuning_seen(id).value());
  const std::vector<Measurement> all = collect_all(*tuning);
  std::set<std::uint64_t> ids;
  for (const Measurement& m : all) {
    ids.insert(m.id);
    EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  }
  EXPECT_EQ(all.size(), 60u);
  EXPECT_EQ(ids.size(), 60u);
  EXPECT_EQ(said, 1);
  EXPECT_GT(queue.counts()->cancelled, 0);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// A machine where no worker starts says nothing about candidates.
TEST_P(FleetTest, AnAgentThatCannotBeginLeavesTheTrialsToOthers) {
  AgentOptions broken = agent_at(place("a"), "broken", answer_quickly);
  broken.start_measurer =
      [](std::vector<measure::MeasuredTask>, const target::Target&,
         const measure::MeasureOptions&) -> Result<std::unique_ptr<measure::Measurer>> {
    return make_error(ErrorCode::kUnavailable, "cannot fork workers");
  };
  ThreadAgent first(broken);
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 20));
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.tunings()->at(0).id;
  const auto refused = [&] { return roster.helpers(id)->at(0).refused; };
  while (refused().empty()) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(refused(), "cannot fork workers");
  ThreadAgent second(agent_at(place("a"), "good", answer_quickly));
  const std::vector<Measurement> all = collect_all(*tuning);
  EXPECT_EQ(all.size(), 20u);
  for (const Measurement& m : all) EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  EXPECT_GT(first.end()->given_back, 0);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// Between its acceptance and its first trial others may write what an agent would refuse.
TEST_P(FleetTest, AnAgentLooksAtTheWorkAgainBeforeItBegins) {
  ThreadAgent agent(agent_at(place("a"), "careful", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t id = roster.tunings()->at(0).id;
  Work greedy = work_from_text(roster.work(id).value()).value();
  greedy.options.threads = 64;
  auto write = queue.connection()->prepare("UPDATE tunings SET work = ? WHERE id = ?").value();
  write.bind_bytes(0, to_text(greedy));
  write.bind(1, id);
  ASSERT_TRUE(write.finish().ok());
  tuning->submit(trials_of(0, 2));
  std::string refused;
  while (refused.empty()) refused = roster.helpers(id)->at(0).refused;
  EXPECT_NE(refused.find("not for the machine"), std::string::npos) << refused;
}

TEST_P(FleetTest, AnAgentNeedsALeaseThatItCanKeep) {
  for (const auto lease : {0ms, 1ms, 3'600'001ms}) {
    AgentOptions options = agent_at(place("a"), "hasty", answer_quickly);
    options.lease = lease;
    const Result<AgentTotals> totals = run_agent(options, {});
    ASSERT_FALSE(totals.ok());
    EXPECT_EQ(totals.error().code, ErrorCode::kInvalidArgument);
  }
}

TEST_P(FleetTest, ASimulationCountsEveryTrialAndLeavesNothing) {
  const Result<Simulated> s =
      simulate({.database = place("a"), .agents = 3, .trials = 200, .batch = 4});
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_EQ(s->trials, 200);
  EXPECT_GE(s->reports, 50);
  EXPECT_GE(s->claims, 4 + 3) << "the last one of each agent finds nothing";
  EXPECT_GT(s->wall_s, 0);
  EXPECT_LE(s->claim_p50_ms, s->claim_p99_ms);
  Queue queue = open();
  EXPECT_EQ(queue.connection()->query_integer("SELECT count(*) FROM trials").value(), 0);
  EXPECT_EQ(queue.connection()->query_integer("SELECT count(*) FROM attempts").value(), 0);
  EXPECT_TRUE(Roster(queue).agents()->empty());
  std::atomic<int> asked = 0;
  const Result<Simulated> half =
      simulate({.database = place("a"), .agents = 2, .trials = 5'000, .interrupted = [&] {
                  return ++asked > 8;
                }});
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().message, "interrupted");
  EXPECT_EQ(queue.connection()->query_integer("SELECT count(*) FROM trials").value(), 0);
  EXPECT_FALSE(simulate({.database = place("a"), .agents = 0}).ok());
  EXPECT_FALSE(simulate({.database = place("a"), .batch = kMostClaimed + 1}).ok());
}

TEST_P(FleetTest, ASimulationKeepsItsPace) {
  const Result<Simulated> s =
      simulate({.database = place("a"), .agents = 2, .trials = 20, .rate = 50});
  ASSERT_TRUE(s.ok()) << s.error().message;
  EXPECT_EQ(s->trials, 20);
  EXPECT_EQ(s->reports, 20);
  EXPECT_GE(s->claims, 20 + 2) << "one trial each, and the last one of each agent finds nothing";
  // Each of two agents has made at most 1 + 50 t claims after t seconds.
  EXPECT_GE(s->wall_s, 0.17);
  std::atomic<int> asked = 0;
  const Result<Simulated> half =
      simulate({.database = place("a"), .agents = 2, .trials = 20, .rate = 0.1, .interrupted = [&] {
                  return ++asked > 8;
                }});
  ASSERT_FALSE(half.ok());
  EXPECT_EQ(half.error().message, "interrupted");
  for (const double rate : {-1.0, 0.04, std::nan("")}) {
    const Result<Simulated> wrong = simulate({.database = place("a"), .rate = rate});
    ASSERT_FALSE(wrong.ok()) << rate;
    EXPECT_EQ(wrong.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(simulate({.database = place("a"), .batch = 16, .rate = 0.5}).ok());
}

}  // namespace
}  // namespace tessera::fleet
