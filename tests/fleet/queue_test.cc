#include "tessera/trials/fleet/queue.h"

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/trials/fleet/queue_grant.h"
#include "tests/fleet/agents.h"
#include "tests/fleet/history.h"
#include "tests/record/both_engines.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;
using record::EngineKind;
using Ids = std::vector<std::int64_t>;

class QueueTest : public record::BothEngines {
 protected:
  Queue open() {
    EXPECT_TRUE(record::Database::open(place("a")).ok());
    Result<Queue> queue = Queue::open(place("a"));
    EXPECT_TRUE(queue.ok()) << queue.error().message;
    return std::move(queue).value();
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, QueueTest,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         record::engine_name);

std::vector<NewTrial> trials(int count) {
  std::vector<NewTrial> out;
  for (int i = 0; i < count; ++i) out.push_back({std::string("p\0", 2) + std::to_string(i)});
  return out;
}

Ids trials_of(const Result<std::vector<Claim>>& claims) {
  Ids out;
  for (const Claim& c : claims.value()) out.push_back(c.trial);
  return out;
}

TEST_P(QueueTest, ATrialGoesOutAndItsResultComesBack) {
  Queue queue = open();
  const Ids ids = queue.enqueue(7, trials(3)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  const auto claims = queue.claim(agent, 2, 60s);
  ASSERT_TRUE(claims.ok()) << claims.error().message;
  ASSERT_EQ(trials_of(claims), (Ids{ids[0], ids[1]}));
  EXPECT_EQ((*claims)[1].payload, std::string("p\0", 2) + "1");
  EXPECT_EQ((*claims)[0].attempt, 1);
  EXPECT_EQ(queue.renew(agent, 60s).value(), (Ids{ids[0], ids[1]}));
  const std::string bytes("\0r\xff", 3);
  EXPECT_EQ(queue.report(agent, {{ids[0], 1, bytes}, {ids[1], 1, ""}}).value(),
            (Ids{ids[0], ids[1]}));
  EXPECT_TRUE(queue.results(8)->empty());
  const auto results = queue.results(7).value();
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[0].payload, bytes);
  ASSERT_TRUE(queue.take(7, {ids[0]}).ok());
  EXPECT_EQ(queue.results(7)->size(), 1u) << "until it is taken it comes again";
  EXPECT_TRUE(queue.renew(agent, 60s)->empty());
  EXPECT_EQ(queue.cancel(7).value(), 1);
  EXPECT_EQ(queue.counts()->done, 2);
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, AgentsTakeTrialsOfTheTuningsThatTheyWorkFor) {
  Queue queue = open();
  Roster roster(queue);
  const Ids of_three = queue.enqueue(3, trials(1)).value();
  const Ids of_four = queue.enqueue(4, trials(1)).value();
  const std::int64_t agent = roster.add_agent({.name = "a"}).value();
  EXPECT_TRUE(queue.claim(agent, 64, 60s)->empty());
  ASSERT_TRUE(roster.join(4, agent, 0).value());
  EXPECT_EQ(trials_of(queue.claim(agent, 64, 60s)), of_four);
  ASSERT_TRUE(roster.refuse(3, agent, "it is too large").ok());
  EXPECT_TRUE(queue.claim(agent, 64, 60s)->empty());
  ASSERT_TRUE(roster.join(3, agent, 0).value());
  EXPECT_EQ(trials_of(queue.claim(agent, 64, 60s)), of_three);
}

TEST_P(QueueTest, UrgentTrialsGoFirst) {
  Queue queue = open();
  const Ids usual = queue.enqueue(1, trials(3)).value();
  const Ids urgent = queue.enqueue(1, {{"u", true}}).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  EXPECT_EQ(trials_of(queue.claim(agent, 1, 60s)), urgent);
  EXPECT_EQ(trials_of(queue.claim(agent, 1, 60s)), Ids{usual[0]});
}

TEST_P(QueueTest, WhatAnAgentMustNotTakeIsLeftToOthers) {
  Queue queue = open();
  const std::int64_t one = new_agent(queue, "one").value();
  const std::int64_t two = new_agent(queue, "two").value();
  const Ids checks = queue.enqueue(1, {{"a", true, one}, {"b", true, one}}).value();
  const Ids usual = queue.enqueue(1, trials(1)).value();
  EXPECT_EQ(trials_of(queue.claim(one, 64, 60s)), usual);
  EXPECT_EQ(trials_of(queue.claim(two, 1, 60s)), Ids{checks[0]});
  EXPECT_EQ(queue.open_to_all(2).value(), 0);
  EXPECT_TRUE(queue.claim(one, 64, 60s)->empty()) << "that was another session";
  EXPECT_EQ(queue.open_to_all(1).value(), 1);
  EXPECT_EQ(trials_of(queue.claim(one, 64, 60s)), Ids{checks[1]});
  EXPECT_EQ(queue.report(two, {{checks[0], 1, "r"}}).value(), Ids{checks[0]});
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, WhatIsCancelledIsNeitherTakenNorCounted) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(3)).value();
  const Ids others = queue.enqueue(2, trials(1)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  ASSERT_EQ(queue.claim(agent, 2, 60s)->size(), 2u);
  ASSERT_EQ(queue.report(agent, {{ids[0], 1, "r"}}).value(), Ids{ids[0]});
  EXPECT_EQ(queue.cancel(1).value(), 2);
  EXPECT_TRUE(queue.renew(agent, 60s)->empty());
  EXPECT_TRUE(queue.report(agent, {{ids[1], 1, "r"}})->empty());
  EXPECT_EQ(trials_of(queue.claim(agent, 64, 60s)), others);
  EXPECT_EQ(queue.counts_of(1)->cancelled, 2);
  EXPECT_EQ(queue.results(1)->size(), 1u) << "what was done before is kept";
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, SessionsShareByTheirWeights) {
  Queue queue = open();
  const Ids first = queue.enqueue(1, trials(40)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  ASSERT_EQ(queue.claim(agent, 20, 60s)->size(), 20u);
  const Ids second = queue.enqueue(2, trials(40), 3).value();
  const Ids next = trials_of(queue.claim(agent, 16, 60s));
  const auto of_second =
      std::ranges::count_if(next, [&](std::int64_t id) { return id >= second[0]; });
  EXPECT_GE(of_second, 11);
  EXPECT_LE(of_second, 15) << "a late session has nothing to make up for";
}

TEST_P(QueueTest, ALateSessionHasNothingToMakeUpForWhereNothingWaits) {
  Queue queue = open();
  Roster roster(queue);
  const std::int64_t agent = roster.add_agent({.name = "a"}).value();
  const std::int64_t old = roster.open_tuning({.name = "old"}, "").value();
  ASSERT_TRUE(roster.join(old, agent, 0).value());
  ASSERT_TRUE(queue.enqueue(old, trials(40)).ok());
  for (const bool reported : {true, false}) {
    const auto claims = queue.claim(agent, 64, 60s).value();
    ASSERT_FALSE(claims.empty());
    for (const Claim& c : claims) {
      ASSERT_TRUE(!reported || queue.report(agent, {{c.trial, c.attempt, "r"}}).ok());
    }
    const std::int64_t late = roster.open_tuning({.name = "late"}, "").value();
    ASSERT_TRUE(roster.join(late, agent, 0).value());
    ASSERT_TRUE(queue.enqueue(late, trials(20)).ok());
    ASSERT_TRUE(queue.enqueue(old, trials(20)).ok());
    const auto next = queue.claim(agent, 16, 60s).value();
    const auto of_late =
        std::ranges::count_if(next, [&](const Claim& c) { return c.session == late; });
    EXPECT_GE(of_late, 6);
    EXPECT_LE(of_late, 10);
    for (const Claim& c : next) ASSERT_TRUE(queue.report(agent, {{c.trial, c.attempt, "r"}}).ok());
    ASSERT_TRUE(queue.cancel(late).ok());
  }
}

TEST_P(QueueTest, ALeaseThatRanOutIsTakenOverAndItsResultRefused) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(2)).value();
  const std::int64_t slow = new_agent(queue, "slow").value();
  const std::int64_t other = new_agent(queue, "other").value();
  ASSERT_EQ(queue.claim(slow, 2, 1ms)->size(), 2u);
  std::this_thread::sleep_for(20ms);
  const auto taken = queue.claim(other, 1, 60s);
  ASSERT_EQ(trials_of(taken), Ids{ids[0]});
  EXPECT_EQ((*taken)[0].attempt, 2);
  EXPECT_EQ(queue.renew(slow, 60s).value(), Ids{ids[1]}) << "what nobody took is held again";
  EXPECT_EQ(queue.report(slow, {{ids[0], 1, "late"}, {ids[1], 1, "held"}}).value(), Ids{ids[1]});
  EXPECT_TRUE(queue.report(slow, {{ids[0], 2, "lied"}})->empty()) << "of another agent";
  EXPECT_EQ(queue.report(other, {{ids[0], 2, "right"}}).value(), Ids{ids[0]});
  EXPECT_EQ(queue.report(other, {{ids[0], 2, "again"}}).value(), Ids{ids[0]}) << "it is its own";
  EXPECT_EQ(queue.results(1)->at(0).payload, "right");
  EXPECT_EQ(queue.counts()->taken_over, 1);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// However well its agent beats.
TEST_P(QueueTest, AnAttemptThatTakesTooLongIsNotRenewed) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(2)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  const std::int64_t other = new_agent(queue, "other").value();
  ASSERT_EQ(queue.claim(agent, 2, 100ms)->size(), 2u);
  ASSERT_TRUE(queue.connection()
                  ->execute(fmt::format("UPDATE attempts SET claimed = claimed - {} WHERE trial = "
                                        "{}",
                                        kLongestAttempt.count() + 1, ids[0]))
                  .ok());
  EXPECT_EQ(queue.renew(agent, 60s).value(), Ids{ids[1]});
  std::this_thread::sleep_for(120ms);
  const auto taken = queue.claim(other, 2, 60s);
  ASSERT_EQ(trials_of(taken), Ids{ids[0]});
  EXPECT_EQ(queue.renew(other, 60s).value(), Ids{ids[0]}) << "its own attempt is young";
  EXPECT_TRUE(queue.report(agent, {{ids[0], 1, "late"}})->empty());
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, WhatAnAgentLetsExpireIsThereAtOnceAndCounts) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(2)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  ASSERT_EQ(queue.claim(agent, 2, 60s)->size(), 2u);
  EXPECT_EQ(queue.expire(agent, {}).value(), 0);
  for (int i = 0; i < kMostAttempts; ++i) {
    EXPECT_EQ(queue.expire(agent, {ids[0]}).value(), 1);
    EXPECT_EQ(queue.claim(agent, 2, 60s)->size(), i + 1 < kMostAttempts ? 1u : 0u) << i;
  }
  EXPECT_EQ(queue.renew(agent, 60s).value(), Ids{ids[1]});
  EXPECT_EQ(queue.counts()->given_up, 1);
  EXPECT_EQ(queue.counts()->taken_over, kMostAttempts);
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, WhatIsGivenBackIsThereAtOnce) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(2)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  ASSERT_EQ(queue.claim(agent, 2, 60s)->size(), 2u);
  EXPECT_TRUE(queue.claim(agent, 2, 60s)->empty());
  EXPECT_EQ(queue.give_back(agent).value(), 2);
  EXPECT_EQ(trials_of(queue.claim(agent, 2, 60s)), ids);
  EXPECT_EQ(fault_of_history(place("a"), false), "");
}

TEST_P(QueueTest, ATrialThatNoAgentSurvivesIsGivenUp) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(1)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  for (int i = 0; i < kMostAttempts; ++i) {
    ASSERT_EQ(queue.claim(agent, 1, 1ms)->size(), 1u) << i;
    std::this_thread::sleep_for(20ms);
  }
  EXPECT_TRUE(queue.claim(agent, 1, 1ms)->empty());
  ASSERT_EQ(queue.results(1)->size(), 1u);
  EXPECT_EQ(queue.results(1)->at(0).attempt, 0);
  EXPECT_EQ(queue.counts()->given_up, 1);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(QueueTest, WhatAgentsGiveBackIsNotGivenUp) {
  Queue queue = open();
  const Ids ids = queue.enqueue(1, trials(1)).value();
  const std::int64_t agent = new_agent(queue, "one").value();
  for (int i = 0; i < 2 * kMostAttempts; ++i) {
    ASSERT_EQ(trials_of(queue.claim(agent, 1, 60s)), ids) << i;
    ASSERT_EQ(queue.give_back(agent).value(), 1);
  }
  EXPECT_EQ(queue.counts()->given_up, 0);
  const auto last = queue.claim(agent, 1, 60s).value();
  ASSERT_EQ(last.size(), 1u);
  EXPECT_EQ(queue.report(agent, {{ids[0], last[0].attempt, "r"}}).value(), ids);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(QueueTest, ManyTrialsAreCancelledAtOnce) {
  Queue queue = open();
  const int many = 200'000;  // a list of their ids is more SQL than SQLite takes
  if (server()) GTEST_SKIP() << "a server has no such limit";
  ASSERT_TRUE(queue.enqueue(1, std::vector<NewTrial>(many)).ok());
  const std::int64_t agent = new_agent(queue, "one").value();
  ASSERT_EQ(queue.claim(agent, 2, 60s)->size(), 2u);
  const Result<std::int64_t> cancelled = queue.cancel(1);
  ASSERT_TRUE(cancelled.ok()) << cancelled.error().message;
  EXPECT_EQ(*cancelled, many);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(QueueTest, BadNumbersAreRefused) {
  Queue queue = open();
  EXPECT_FALSE(queue.claim(1, 0, 1s).ok());
  EXPECT_FALSE(queue.claim(1, kMostClaimed + 1, 1s).ok());
  EXPECT_FALSE(queue.report(1, {}).ok());
  EXPECT_FALSE(queue.report(1, std::vector<TrialResult>(kMostClaimed + 1)).ok());
  EXPECT_FALSE(queue.enqueue(1, trials(1), 0).ok());
}

TEST_P(QueueTest, NewerTablesAreRefused) {
  { open(); }
  {
    const auto connection = record::Connection::open(place("a"), record::OpenMode::kCreate);
    ASSERT_TRUE(connection->execute("UPDATE queue_version SET version = 9").ok());
  }
  const Result<Queue> queue = Queue::open(place("a"));
  ASSERT_FALSE(queue.ok());
  EXPECT_EQ(queue.error().code, ErrorCode::kUnsupported);
  EXPECT_NE(queue.error().message.find("update Tessera"), std::string::npos);
}

TEST_P(QueueTest, TablesOfAnEarlierVersionAreMadeAnew) {
  { open(); }
  {
    const auto connection = record::Connection::open(place("a"), record::OpenMode::kCreate);
    ASSERT_TRUE(connection
                    ->define("DROP TABLE tunings; DROP TABLE helpers; CREATE TABLE results (trial "
                             "INTEGER NOT NULL); UPDATE queue_version SET version = 1")
                    .ok());
  }
  Queue queue = open();
  EXPECT_TRUE(Roster(queue).tunings()->empty());
}

TEST_P(QueueTest, ARoleThatIsAnAgentMayDoNothingElse) {
  if (!server()) GTEST_SKIP() << "files have no roles";
  Queue owner = open();
  const Ids ids = owner.enqueue(8, trials(3)).value();
  const auto* postgres = tessera::testing::PostgresServer::get();
  const std::string database = place("a").substr(14, place("a").find('?') - 14);
  postgres->sql(database, "CREATE ROLE \"an agent\" LOGIN");
  for (const bool tuner : {false, true}) {
    ASSERT_NE(postgres->sql(database, queue_grant_sql("an agent",
                                                      tuner ? GrantFor::kTuner : GrantFor::kAgent)),
              "");
    Result<Queue> queue = Queue::open(postgres->url(database, "an%20agent"));
    ASSERT_TRUE(queue.ok()) << queue.error().message;
    Roster roster(*queue);
    const std::int64_t agent = new_agent(*queue, "a").value();
    const auto claims = queue->claim(agent, 1, 60s);
    ASSERT_TRUE(claims.ok()) << claims.error().message;
    ASSERT_EQ(claims->size(), 1u);
    EXPECT_EQ(queue->report(agent, {{claims->at(0).trial, 1, "r"}})->size(), 1u);
    EXPECT_TRUE(roster.seen(agent, 1, 0).ok());
    EXPECT_TRUE(queue->renew(agent, 60s).ok());
    EXPECT_TRUE(queue->give_back(agent).ok());
    EXPECT_TRUE(roster.tidy(*queue).ok());
    // A tuning whose tuner is gone it ends, and changes nothing else of it.
    const std::int64_t left = Roster(owner).open_tuning({.name = "left"}, "work").value();
    ASSERT_TRUE(owner.enqueue(left, trials(2)).ok());
    ASSERT_TRUE(owner.connection()
                    ->execute(fmt::format("UPDATE tunings SET seen = seen - {} WHERE id = {}",
                                          kTuningGoneMs + 1, left))
                    .ok());
    EXPECT_TRUE(roster.tidy(*queue).ok());
    EXPECT_TRUE(Roster(owner).tunings()->empty());
    EXPECT_EQ(owner.counts_of(left)->cancelled, 2);
    EXPECT_EQ(roster.work(left).value(), "work");
    EXPECT_EQ(queue->connection()->execute("UPDATE tunings SET work = ''").ok(), tuner);
    EXPECT_FALSE(queue->connection()->execute("UPDATE tunings SET target = ''").ok());
    EXPECT_EQ(roster.close_tuning(left, *queue).ok(), tuner);
    EXPECT_TRUE(roster.remove_agent(agent).ok());
    EXPECT_FALSE(queue->connection()->execute("DELETE FROM trials").ok());
    EXPECT_FALSE(queue->connection()->execute("UPDATE records SET seconds = 0").ok());
    EXPECT_EQ(queue->enqueue(8, trials(1)).ok(), tuner);
    EXPECT_EQ(roster.open_tuning({.name = "t"}, "").ok(), tuner);
  }
  postgres->sql(database, "DROP OWNED BY \"an agent\"; DROP ROLE \"an agent\"");
}

TEST_P(QueueTest, WaitingEndsWhenThereIsWork) {
  Queue queue = open();
  queue.wait(1ms);  // begins to listen
  if (!server()) return;
  Queue other = open();
  std::thread later([&] {
    std::this_thread::sleep_for(100ms);
    EXPECT_TRUE(other.enqueue(1, trials(1)).ok());
  });
  const auto begin = std::chrono::steady_clock::now();
  queue.wait(30s);
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s);
}

}  // namespace
}  // namespace tessera::fleet
