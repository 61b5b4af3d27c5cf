// What may happen to a fleet whose database answers: agents that hang or lie, a server that lacks
// something for a while.
#include <atomic>
#include <set>

#include "tessera/trials/fleet/queue_grant.h"
#include "tests/fleet/fleet_case.h"
#include "tests/fleet/history.h"
#include "tests/record/both_engines.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;
using measure::Measurement;
using measure::Outcome;
using record::EngineKind;
using tessera::testing::PostgresServer;

class FleetFault : public record::BothEngines {
 protected:
  Queue open() {
    EXPECT_TRUE(record::Database::open(place("a")).ok());
    return Queue::open(place("a")).value();
  }
  void until_two_help() {
    Queue queue = open();
    Roster roster(queue);
    const std::int64_t id = roster.tunings()->at(0).id;
    while (roster.helpers(id)->size() < 2) std::this_thread::sleep_for(5ms);
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, FleetFault,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         record::engine_name);

// Workers that take what comes and say nothing.
class SilentMeasurer final : public measure::Measurer {
 public:
  explicit SilentMeasurer(std::atomic<int>* taken) : taken_(taken) {}
  void submit(std::vector<measure::Trial> trials) override {
    pending_ += trials.size();
    *taken_ += static_cast<int>(trials.size());
  }
  std::vector<Measurement> collect(double timeout_s) override {
    std::this_thread::sleep_for(std::chrono::duration<double>(timeout_s));
    return {};
  }
  std::size_t pending() const override { return pending_; }
  void cancel() override { pending_ = 0; }
  std::vector<Measurement> compare(const std::vector<measure::Trial>&) override { return {}; }
  measure::MachineState machine() const override { return {}; }

 private:
  std::atomic<int>* taken_;
  std::size_t pending_ = 0;
};

// The agent beats, so nobody would take over what its first workers hold.
TEST_P(FleetFault, WorkersThatHangAreStartedAnew) {
  std::atomic<int> taken = 0, crews = 0;
  AgentOptions options = agent_at(place("a"), "one", answer_quickly);
  options.silence_s = 0.2;
  options.start_measurer = [&, quick = options.start_measurer](
                               auto tasks, const auto& target,
                               const auto& how) -> Result<std::unique_ptr<measure::Measurer>> {
    if (crews++ > 0) return quick(std::move(tasks), target, how);
    return std::unique_ptr<measure::Measurer>(std::make_unique<SilentMeasurer>(&taken));
  };
  ThreadAgent agent(options);
  measure::MeasureOptions how;
  how.build_timeout_s = how.run_timeout_s = 0.05;
  {
    auto tuning =
        start_fleet_measurer(fleet_at(place("a")), {{"t", small_dag()}}, target::host(), how)
            .value();
    tuning->submit(trials_of(0, 8));
    for (const Measurement& m : collect_all(*tuning))
      EXPECT_EQ(m.outcome, Outcome::kOk) << m.reason;
  }
  EXPECT_GT(taken, 0) << "the fault did not happen";
  EXPECT_EQ(crews, 2);
  EXPECT_EQ(agent.end()->hung, 1);
  EXPECT_GT(open().counts()->taken_over, 0);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(FleetFault, ALiarIsOutOfTheTuningAndOthersMeasureWhatItHad) {
  ThreadAgent liar(agent_at(place("a"), "liar",
                            [](const auto&, bool, Measurement* m) { m->samples_s = {1e-6}; }));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  const std::vector<Measurement> lied = collect_all(*tuning);
  ASSERT_EQ(lied.at(0).seconds(), 1e-6);
  ThreadAgent honest(agent_at(place("a"), "honest", [](const auto& t, bool together, auto* m) {
    std::this_thread::sleep_for(20ms);
    answer_quickly(t, together, m);
  }));
  until_two_help();
  // Done, some of it by the liar, and not collected yet.
  tuning->submit(trials_of(100, 40));
  Queue queue = open();
  const std::int64_t id = Roster(queue).tunings()->at(0).id;
  const auto of_liar = [&] {
    return queue.connection()
        ->query_integer(fmt::format("SELECT count(*) FROM trials WHERE session = {} AND taken = 0 "
                                    "AND state = 2 AND reporter = {}",
                                    id, lied[0].machine))
        .value();
  };
  while (queue.counts_of(id)->done < 41) {
    ASSERT_TRUE(Roster(queue).tuning_seen(id).value());  // a tuner would have asked for results
    std::this_thread::sleep_for(5ms);
  }
  EXPECT_GT(of_liar(), 0) << "the fault did not happen";
  EXPECT_TRUE(tuning->take_doubted().empty());
  EXPECT_EQ(tuning->compare(trials_of(0, 1))[0].seconds(), 1e-3);
  EXPECT_EQ(tuning->take_doubted(), std::vector{lied[0].machine});
  EXPECT_TRUE(tuning->take_doubted().empty()) << "once";
  tuning->submit(trials_of(200, 20));
  const std::vector<Measurement> all = collect_all(*tuning);
  std::set<std::uint64_t> ids;
  for (const Measurement& m : all) {
    ids.insert(m.id);
    EXPECT_EQ(m.seconds(), 1e-3) << m.id;
    EXPECT_NE(m.machine, lied[0].machine);
  }
  EXPECT_EQ(all.size(), 60u);
  EXPECT_EQ(ids.size(), 60u);
  int refused = 0;
  const std::vector<HelperRow> helpers = Roster(queue).helpers(id).value();
  for (const HelperRow& h : helpers) {
    EXPECT_EQ(h.agent == lied[0].machine, !h.refused.empty()) << h.refused;
    refused += h.refused.empty() ? 0 : 1;
  }
  EXPECT_EQ(refused, 1);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// What it reports is right for a machine a thousand times as slow, which it says it is.
TEST_P(FleetFault, AnAgentThatLiesAboutTheSpeedOfItsMachineIsFoundOut) {
  ThreadAgent liar(agent_at(place("a"), "liar", [](const auto&, bool, Measurement* m) {
    m->samples_s = {1e-3};
    m->calibration_s = 1e-2;
  }));
  std::string note;
  FleetOptions fleet = fleet_at(place("a"));
  fleet.note = [&](const std::string& line) { note = line; };
  auto tuning = tuning_at(fleet).value();
  tuning->submit(trials_of(0, 1));
  ASSERT_EQ(collect_all(*tuning).size(), 1u);
  ThreadAgent honest(agent_at(place("a"), "honest", answer_quickly));
  until_two_help();
  EXPECT_EQ(tuning->compare(trials_of(0, 1))[0].seconds(), 1e-3);
  EXPECT_EQ(tuning->take_doubted().size(), 1u);
  EXPECT_NE(note.find("agent liar reported 1000 us for what agent honest measures as 1e+06 us"),
            std::string::npos)
      << note;
}

// ... and one that is only slower than another, as its calibration says, is not.
TEST_P(FleetFault, AnAgentOfASlowerMachineIsBelieved) {
  ThreadAgent quick(agent_at(place("a"), "quick", answer_quickly));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  const std::vector<Measurement> first = collect_all(*tuning);
  ThreadAgent slow(agent_at(place("a"), "slow", [](const auto& t, bool together, Measurement* m) {
    answer_quickly(t, together, m);
    m->samples_s[0] *= 3;
    m->calibration_s *= 3;
  }));
  until_two_help();
  const std::vector<Measurement> compared = tuning->compare(trials_of(0, 1));
  ASSERT_NE(compared[0].machine, first.at(0).machine) << "nobody checked it";
  EXPECT_TRUE(tuning->take_doubted().empty());
}

// One that says what nobody can read, or names another machine, gets nothing to do.
TEST_P(FleetFault, AnAgentMustNameTheMachineOfTheTuning) {
  Queue queue = open();
  Roster roster(queue);
  AgentRow row;
  row.version = "test";
  row.threads = 4;
  for (const char* target : {"\x1b[2J", "nonsense"}) {
    row.name = "liar";
    row.target = target;
    ASSERT_TRUE(roster.add_agent(row).ok());
  }
  target::Target other = target::host();
  other.l2_bytes *= 4;
  row.target = target::to_text(other);
  ASSERT_TRUE(roster.add_agent(row).ok());
  FleetOptions fleet = fleet_at(place("a"));
  fleet.patience_s = 0.3;
  const auto tuning = tuning_at(fleet);
  ASSERT_FALSE(tuning.ok());
  EXPECT_NE(tuning.error().message.find("liar (its machine cannot be read)"), std::string::npos)
      << tuning.error().message;
  EXPECT_NE(tuning.error().message.find("liar (is another machine: "), std::string::npos)
      << tuning.error().message;
}

// What is said of an agent reaches the terminal of whoever tunes.
TEST_P(FleetFault, NamesAndReasonsOfAgentsMakeNoTerminalDoThings) {
  const std::string evil = "\x1b]0;evil\x07\nagent";
  ThreadAgent agent(agent_at(place("a"), evil, [&](const auto&, bool, Measurement* m) {
    m->outcome = Outcome::kBuildError;
    m->reason = "line\n" + evil;
  }));
  auto tuning = tuning_at(fleet_at(place("a"))).value();
  tuning->submit(trials_of(0, 1));
  EXPECT_EQ(collect_all(*tuning).at(0).reason, "line\n?]0;evil?\nagent");
  Queue queue = open();
  Roster roster(queue);
  EXPECT_EQ(roster.agents()->at(0).name, "?]0;evil??agent");
  const std::int64_t id = roster.tunings()->at(0).id;
  ASSERT_TRUE(roster.refuse(id, roster.agents()->at(0).id, evil).ok());
  EXPECT_EQ(roster.helpers(id)->at(0).refused, "?]0;evil??agent");
  FleetOptions fleet = fleet_at(place("a"), "label=rack=3");
  fleet.patience_s = 0.1;
  const auto nobody = tuning_at(fleet);
  ASSERT_FALSE(nobody.ok());
  EXPECT_EQ(nobody.error().message.find('\x1b'), std::string::npos);
}

TEST_P(FleetFault, WhatEndedADayAgoIsForgottenByTheOwner) {
  Queue queue = open();
  Roster roster(queue);
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(roster.open_tuning({.name = "t"}, "work").value());
    ASSERT_TRUE(queue.enqueue(ids.back(), {{"p"}, {"p"}}).ok());
    if (i > 0) {
      ASSERT_TRUE(roster.close_tuning(ids.back(), queue).ok());
    }
  }
  ASSERT_TRUE(roster.add_agent({.name = "old"}).ok());
  const auto count = [&](const char* table) {
    return queue.connection()->query_integer(fmt::format("SELECT count(*) FROM {}", table)).value();
  };
  EXPECT_EQ(roster.forget_old().value(), 0) << "not yet";
  for (const char* table : {"tunings", "agents"}) {
    ASSERT_TRUE(queue.connection()
                    ->execute(fmt::format("UPDATE {} SET seen = seen - 86400001", table))
                    .ok());
  }
  if (server()) {
    const auto* postgres = PostgresServer::get();
    const std::string database = place("a").substr(14, place("a").find('?') - 14);
    postgres->sql(database, "CREATE ROLE forgets LOGIN");
    ASSERT_NE(postgres->sql(database, queue_grant_sql("forgets", GrantFor::kTuner)), "");
    Queue as_role = Queue::open(postgres->url(database, "forgets")).value();
    EXPECT_FALSE(Roster(as_role).forget_old().ok());
    postgres->sql(database, "DROP OWNED BY forgets; DROP ROLE forgets");
  }
  EXPECT_EQ(count("trials"), 40);
  EXPECT_EQ(roster.forget_old().value(), 19);
  EXPECT_EQ(count("trials"), 2) << "what is open stays";
  EXPECT_EQ(count("tunings"), 1);
  EXPECT_EQ(count("agents"), 0);
}

class FleetServerFault : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::get();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::why_absent();
    url_ = server_->make_database("lacks");
    ASSERT_TRUE(record::Database::open(url_).ok());
    ASSERT_TRUE(Queue::open(url_).ok());
    database_ = url_.substr(14, url_.find('?') - 14);
  }
  std::string sql(const std::string& statement) const { return server_->sql(database_, statement); }

  PostgresServer* server_ = nullptr;
  std::string url_, database_;
};

// Of the states that a trial gets, those of SQLSTATE 53100 (its disk is full), 53200 (memory) and
// 57014 (an administrator cancels what runs) end neither agents nor tunings.
TEST_F(FleetServerFault, WhatTheServerLacksForAWhileEndsNobody) {
  ThreadAgent agent(agent_at(url_, "one", answer_quickly));
  auto tuning = tuning_at(fleet_at(url_)).value();
  tuning->submit(trials_of(0, 4));
  ASSERT_EQ(collect_all(*tuning).size(), 4u);
  ASSERT_NE(sql("CREATE SEQUENCE tessera.fired; CREATE FUNCTION tessera.lack() RETURNS trigger "
                "LANGUAGE plpgsql AS $$ DECLARE n bigint := nextval('tessera.fired'); BEGIN RAISE "
                "'it lacks something' USING ERRCODE = (ARRAY['53100', '53200', '57014'])[n % 3 + "
                "1]; END $$"),
            "");
  // Sequences count what is rolled back, too.
  const auto fired = [&] { return std::stoll("0" + sql("SELECT last_value FROM tessera.fired")); };
  for (const char* when : {"INSERT", "UPDATE"}) {
    const std::int64_t before = fired();
    ASSERT_NE(sql(std::string("CREATE TRIGGER lack BEFORE ") + when +
                  " ON tessera.trials FOR EACH ROW EXECUTE FUNCTION tessera.lack()"),
              "");
    std::thread mended([&] {
      while (fired() < before + 4) std::this_thread::sleep_for(20ms);
      while (sql("DROP TRIGGER lack ON tessera.trials").empty()) std::this_thread::sleep_for(20ms);
    });
    tuning->submit(trials_of(100, 8));
    const std::vector<Measurement> all = collect_all(*tuning);
    mended.join();
    EXPECT_EQ(all.size(), 8u);
    for (const Measurement& m : all) EXPECT_EQ(m.outcome, Outcome::kOk) << when << ": " << m.reason;
    EXPECT_GE(fired(), before + 4) << "the fault did not happen";
  }
  tuning.reset();
  const Result<AgentTotals>& totals = agent.end();
  ASSERT_TRUE(totals.ok()) << totals.error().message;
  EXPECT_EQ(totals->ended_by, "a signal");
  EXPECT_EQ(fault_of_history(url_, true), "");
}

}  // namespace
}  // namespace tessera::fleet
