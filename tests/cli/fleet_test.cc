// tune --agents, agent and fleet as their users meet them: processes and a real PostgreSQL server.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"
#include "tests/fleet/history.h"
#include "tests/fleet/http_client.h"
#include "tests/testing/postgres_server.h"

namespace tessera::cli {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;
using tessera::testing::PostgresServer;

const std::string kOp = "matmul:M=96,N=80,K=64";

class Fleet : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::get();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::why_absent();
    url_ = server_->make_database("fleet");
    plan_ = write_file("t.plan", "");
    std::filesystem::remove(plan_);
  }

  std::unique_ptr<Background> agent(const std::string& name,
                                    const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"agent",     "--db", url_,      "--name", name,
                                     "--threads", "1",    "--lease", "2s",     "--json"};
    args.insert(args.end(), more.begin(), more.end());
    return std::make_unique<Background>(args);
  }
  // Options in `more` come in place of the usual ones.
  std::vector<std::string> tune(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"tune", "--json"};
    for (const auto& [name, value] :
         std::vector<std::pair<std::string, std::string>>{{"--op", kOp},
                                                          {"--threads", "1"},
                                                          {"--peers", "none"},
                                                          {"--policy", "random"},
                                                          {"--db", url_},
                                                          {"--plan", plan_},
                                                          {"--agents", "any"}}) {
      if (std::ranges::find(more, name) == more.end()) args.insert(args.end(), {name, value});
    }
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  Json status() const {
    const Finished done = run({"fleet", "status", "--db", url_, "--json"});
    EXPECT_EQ(done.code, 0) << done.err;
    return Json::parse(done.out, nullptr, false);
  }
  std::int64_t ask(const std::string& sql) const {
    const std::string answer = server_->sql(url_.substr(14, url_.find('?') - 14), sql);
    return answer.empty() ? -1 : std::stoll(answer);
  }
  std::int64_t agents() const { return ask("SELECT count(*) FROM tessera.agents WHERE state = 0"); }
  // Of trials that are queued (0), claimed (1), done (2) ...
  std::int64_t trials(int state) const {
    return ask(fmt::format("SELECT count(*) FROM tessera.trials WHERE state = {}", state));
  }
  static void until(const std::function<bool()>& is) {
    for (int i = 0; i < 3000 && !is(); ++i) std::this_thread::sleep_for(20ms);
    EXPECT_TRUE(is());
  }
  // Stops the agent at a moment when it holds trials.
  void freeze_busy(const Background& agent, const std::string& name) const {
    until([&] {
      agent.signal(SIGSTOP);
      const std::int64_t held =
          ask(fmt::format("SELECT count(*) FROM tessera.trials t JOIN tessera.agents a ON a.id = "
                          "t.agent WHERE t.state = 1 AND a.name = '{}'",
                          name));
      if (held > 0) return true;
      agent.signal(SIGCONT);
      return false;
    });
  }
  std::string history() const { return fleet::fault_of_history(url_, false); }

  PostgresServer* server_ = nullptr;
  std::string url_, plan_;
};

TEST_F(Fleet, TwoAgentsFindWinnersAndTheSameCommandResumes) {
  const auto one = agent("one"), two = agent("two", {"--labels", "rack=3"});
  until([&] { return agents() == 2; });
  const Finished first = run(tune({"--trials", "40"}));
  ASSERT_EQ(first.code, 0) << first.err;
  const Json result = Json::parse(first.out);
  EXPECT_EQ(result["trials"], 40);
  EXPECT_GT(result["sum_best_us"], 0);
  EXPECT_GT(result["sum_default_us"], 0);
  EXPECT_TRUE(std::filesystem::exists(plan_));
  EXPECT_EQ(trials(0) + trials(1), 0);
  EXPECT_GE(trials(2), 40);
  EXPECT_EQ(ask("SELECT count(DISTINCT agent) FROM tessera.helpers WHERE refused = ''"), 2);
  EXPECT_EQ(history(), "");
  const Finished list = run({"db", "list", "--db", url_, "--json"});
  EXPECT_GE(Json::parse(list.out)["records"], 40) << list.err;
  const Finished second = run(tune({"--trials", "46", "--agents", "label=rack=3"}));
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(Json::parse(second.out)["earlier_trials"], 40);
  EXPECT_EQ(ask("SELECT count(*) FROM tessera.helpers WHERE refused = ''"), 3);
  EXPECT_EQ(run({"fleet", "drain", "two", "--db", url_}).code, 0);
  const Finished drained = two->wait();
  EXPECT_EQ(drained.code, 0) << drained.err;
  EXPECT_EQ(Json::parse(drained.out)["ended_by"], "drained");
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait().code, 143);
  EXPECT_TRUE(status()["agents"].empty());
  EXPECT_EQ(run({"fleet", "drain", "two", "--db", url_}).code, 2);
}

TEST_F(Fleet, AnAgentThatIsKilledIsFollowedByAnother) {
  const auto victim = agent("victim"), other = agent("other");
  until([&] { return agents() == 2; });
  Background tuning(tune({"--trials", "60"}));
  freeze_busy(*victim, "victim");
  victim->signal(SIGKILL);
  const Finished done = tuning.wait();
  ASSERT_EQ(done.code, 0) << done.err << done.out;
  EXPECT_EQ(Json::parse(done.out)["trials"], 60);
  EXPECT_GT(ask("SELECT count(*) FROM tessera.attempts WHERE outcome = 2"), 0)
      << "no lease ran out";
  EXPECT_EQ(trials(0) + trials(1), 0);
  EXPECT_EQ(history(), "");
  EXPECT_EQ(victim->wait().signal, SIGKILL);
}

TEST_F(Fleet, AnAgentThatSleptReportsTooLate) {
  const auto sleeper = agent("sleeper"), other = agent("other");
  until([&] { return agents() == 2; });
  Background tuning(tune({"--trials", "60"}));
  freeze_busy(*sleeper, "sleeper");
  until([&] { return ask("SELECT count(*) FROM tessera.attempts WHERE outcome = 2") > 0; });
  sleeper->signal(SIGCONT);
  const Finished done = tuning.wait();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["trials"], 60);
  EXPECT_EQ(history(), "");
  sleeper->signal(SIGTERM);
  EXPECT_EQ(sleeper->wait().code, 143);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// `tessera ARGS...` on a machine whose clock is wrong by so many hours.
std::unique_ptr<Background> hours_off(int hours, const std::vector<std::string>& args) {
  ::setenv("LD_PRELOAD", TESSERA_HOURS_OFF, 1);
  ::setenv("TESSERA_TEST_HOURS_OFF", std::to_string(hours).c_str(), 1);
  auto started = std::make_unique<Background>(args);
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("TESSERA_TEST_HOURS_OFF");
  return started;
}

// Leases and heartbeats are by the clock of the server alone.
TEST_F(Fleet, ClocksThatAreHoursApartDoNoHarm) {
  const auto agent_off = [&](int hours, const std::string& name) {
    return hours_off(hours, {"agent", "--db", url_, "--name", name, "--threads", "1", "--lease",
                             "2s", "--json"});
  };
  const auto ahead = agent_off(5, "ahead"), behind = agent_off(-5, "behind");
  until([&] { return agents() == 2; });
  const auto tuning = hours_off(3, tune({"--trials", "60"}));
  freeze_busy(*behind, "behind");
  const std::int64_t early = ask("SELECT count(*) FROM tessera.attempts WHERE outcome = 2");
  EXPECT_LE(early, 64) << "only what the frozen one held";
  until([&] { return ask("SELECT count(*) FROM tessera.attempts WHERE outcome = 2") > 0; });
  behind->signal(SIGCONT);
  const Finished done = tuning->wait();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["trials"], 60);
  EXPECT_GE(ask("SELECT started - extract(epoch FROM now())::bigint FROM tessera.sessions"), 9000)
      << "the fault did not happen";
  EXPECT_EQ(ask("SELECT count(*) FROM tessera.attempts a JOIN tessera.agents g ON g.id = a.agent "
                "WHERE a.outcome = 2 AND g.name = 'ahead'"),
            0)
      << "it beat in time";
  const Json now = status();
  ASSERT_EQ(now["agents"].size(), 2u) << now;
  for (const Json& a : now["agents"]) EXPECT_LT(std::abs(a["seen_s"].get<double>()), 30) << now;
  EXPECT_EQ(history(), "");
}
#endif

TEST_F(Fleet, ProgramsOfOtherCommitsAreOtherVersions) {
  const auto one = agent("one");
  until([&] { return agents() == 1; });
  const Finished version = run({"--version"});
  const std::string mine = status()["agents"][0]["version"];
  EXPECT_EQ("tessera " + mine + "\n", version.out);
  // As if another program were there in its place.
  one->signal(SIGTERM);
  EXPECT_EQ(one->wait().code, 143);
  ASSERT_NE(ask("UPDATE tessera.agents SET state = 0, version = '0.1.0 (0000000000)' RETURNING 1"),
            -1);
  const Finished nobody = run(tune({"--trials", "8", "--agent-wait", "1s"}));
  EXPECT_EQ(nobody.code, 6);
  EXPECT_NE(nobody.err.find("one (runs version 0.1.0 (0000000000), this is " + mine + ")"),
            std::string::npos)
      << nobody.err;
}

TEST_F(Fleet, AWeightSetsTheTurnsOfATuning) {
  const auto one = agent("one");
  until([&] { return agents() == 1; });
  const Finished done = run(tune({"--trials", "20", "--weight", "4"}));
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_GT(ask("SELECT count(*) FROM tessera.trials WHERE turn <> floor(turn)"), 0)
      << "a weight of 4 has four trials a turn";
  EXPECT_EQ(ask("SELECT count(*) FROM tessera.trials WHERE 4 * turn <> floor(4 * turn)"), 0);
  const std::string version =
      Json::parse(run({"db", "list", "--db", url_, "--json"}).out)["sessions"][0]["version"];
  EXPECT_EQ("tessera " + version + "\n", run({"--version"}).out);
  EXPECT_EQ(run(tune({"--weight", "0"})).code, 2);
}

TEST_F(Fleet, PruningRemovesTheTrialsOfTuningsThatEnded) {
  {
    const auto one = agent("one");
    until([&] { return agents() == 1; });
    ASSERT_EQ(run(tune({"--trials", "8"})).code, 0);
  }
  ASSERT_GT(trials(2), 0);
  const std::vector<std::string> prune = {"db", "prune", "--db", url_, "--older", "365"};
  EXPECT_EQ(run(prune).out, "removed 0 records and 0 sessions\n") << "it ended just now";
  ASSERT_NE(ask("UPDATE tessera.tunings SET seen = seen - 86400001 RETURNING 1"), -1);
  std::vector<std::string> dry = prune;
  dry.push_back("--dry-run");
  EXPECT_EQ(run(dry).out, "would remove 0 records and 0 sessions\n");
  EXPECT_GT(trials(2), 0);
  EXPECT_EQ(run(prune).out,
            "removed 0 records and 0 sessions\nremoved the trials of 1 ended tuning\n");
  EXPECT_EQ(trials(2), 0);
}

TEST_F(Fleet, TheServerGoesAwayAndComesBack) {
  const auto one = agent("one"), two = agent("two");
  until([&] { return agents() == 2; });
  Background tuning(tune({"--trials", "80"}));
  until([&] { return trials(2) > 3; });
  server_->crash();
  EXPECT_TRUE(tuning.runs());
  std::this_thread::sleep_for(300ms);
  ASSERT_TRUE(server_->start());
  const Finished done = tuning.wait();
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["trials"], 80);
  EXPECT_TRUE(one->runs() && two->runs());
  EXPECT_EQ(history(), "");
}

TEST_F(Fleet, AnInterruptedTuningLeavesNothingBehind) {
  const auto one = agent("one");
  Background tuning(tune({"--trials", "100000"}));
  until([&] { return trials(2) > 3; });
  tuning.signal(SIGINT);
  const Finished done = tuning.wait();
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_EQ(trials(0) + trials(1), 0);
  EXPECT_TRUE(status()["tunings"].empty());
  EXPECT_TRUE(one->runs());
  EXPECT_EQ(history(), "");
}

TEST_F(Fleet, ATunerThatIsKilledLeavesNothingThatLasts) {
  const auto one = agent("one");
  Background tuning(tune({"--trials", "100000"}));
  until([&] { return trials(2) > 3; });
  tuning.signal(SIGKILL);
  EXPECT_EQ(tuning.wait().signal, SIGKILL);
  // As a minute later.
  ASSERT_NE(ask("UPDATE tessera.tunings SET seen = seen - 100000 RETURNING 1"), -1);
  until([&] { return trials(0) + trials(1) == 0; });
  const Finished again = run(tune({"--trials", "8"}));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(history(), "");
}

TEST_F(Fleet, SaysWhyNobodyMeasures) {
  const Finished nobody = run(tune({"--trials", "8", "--agent-wait", "1s"}));
  EXPECT_EQ(nobody.code, 6);
  EXPECT_NE(nobody.err.find("there is no agent"), std::string::npos) << nobody.err;
  const auto one = agent("small");
  until([&] { return agents() == 1; });
  const Finished two_threads = run(tune({"--trials", "8", "--agent-wait", "1s", "--threads", "2"}));
  EXPECT_EQ(two_threads.code, 6);
  EXPECT_NE(two_threads.err.find("small (has 1 of 2 threads)"), std::string::npos)
      << two_threads.err;
  for (const std::vector<std::string>& wrong : std::vector<std::vector<std::string>>{
           {"--agents", "some"}, {"--in-place"}, {"--level", "graph"}, {"--db", ""}}) {
    EXPECT_EQ(run(tune(wrong)).code, 2) << wrong[0];
  }
}

TEST(FleetOfAFile, AgentsOfOneMachineShareIt) {
  const std::string db = write_file("t.db", ""), plan = write_file("t.plan", "");
  std::filesystem::remove(db);
  Background agent({"agent", "--db", db, "--threads", "1", "--once"});
  const Finished done =
      run({"tune", "--op", kOp, "--threads", "1", "--peers", "none", "--policy", "random", "--json",
           "--db", db, "--plan", plan, "--agents", "1", "--trials", "12"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["trials"], 12);
  const Finished ended = agent.wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_NE(ended.out.find("ended by nothing to do"), std::string::npos) << ended.out;
  EXPECT_EQ(fleet::fault_of_history(db, true), "");
  const Finished table = run({"fleet", "status", "--db", db});
  EXPECT_NE(table.out.find("0 agents, 0 tunings"), std::string::npos) << table.out;
  EXPECT_EQ(run({"fleet", "status", "--db", db + ".none"}).code, 6);
  const Finished hasty = run({"agent", "--db", db, "--lease", "10ms"});
  EXPECT_EQ(hasty.code, 2);
  EXPECT_NE(hasty.err.find("100 ms to 1 h are possible"), std::string::npos) << hasty.err;
}

TEST(FleetOfAFile, CtrlCEndsTheWaitForAgents) {
  const std::string db = write_file("t.db", ""), plan = write_file("t.plan", "");
  std::filesystem::remove(db);
  Background tuning({"tune", "--op", kOp, "--threads", "1", "--peers", "none", "--policy", "random",
                     "--db", db, "--plan", plan, "--agents", "any", "--trials", "4"});
  const auto tunings = [&] {
    const Finished done = run({"fleet", "status", "--db", db, "--json"});
    return done.code == 0 ? Json::parse(done.out)["tunings"].size() : 0;
  };
  for (int i = 0; i < 1000 && tunings() == 0; ++i) std::this_thread::sleep_for(20ms);
  tuning.signal(SIGINT);
  const Finished done = tuning.wait();
  EXPECT_EQ(done.code, 130) << done.err;
  EXPECT_EQ(tunings(), 0u);
}

TEST(FleetOfAFile, AnAgentServesMetrics) {
  const std::string db = write_file("t.db", ""), plan = write_file("t.plan", "");
  std::filesystem::remove(db);
  Background agent({"agent", "--db", db, "--threads", "1", "--metrics", "127.0.0.1:0"});
  int port = 0;
  for (int i = 0; i < 3000 && port == 0 && agent.runs(); ++i) {
    std::this_thread::sleep_for(20ms);
    const std::string said = agent.said();
    if (said.ends_with('\n')) port = fleet::port_in(said);
  }
  ASSERT_GT(port, 0) << agent.said();
  EXPECT_NE(fleet::http_get(port, "/healthz").find("200 OK"), std::string::npos);
  EXPECT_NE(fleet::http_get(port, "/metrics").find("\ntessera_agent_info{agent="),
            std::string::npos);
  EXPECT_EQ(fleet::http_reply(port, "nonsense\r\n\r\n").find("HTTP/1.1 400 "), 0u);
  const Finished done =
      run({"tune", "--op", kOp, "--threads", "1", "--peers", "none", "--policy", "random", "--json",
           "--db", db, "--plan", plan, "--agents", "1", "--trials", "8"});
  EXPECT_EQ(done.code, 0) << done.err;
  const std::string page = fleet::http_get(port, "/metrics");
  const std::string name = "\ntessera_agent_measured_total ";
  ASSERT_NE(page.find(name), std::string::npos) << page;
  EXPECT_GT(std::stod(page.substr(page.find(name) + name.size())), 0) << page;
  const std::string taken = fmt::format("127.0.0.1:{}", port);
  EXPECT_EQ(run({"agent", "--db", db, "--metrics", taken}).code, 6);
  agent.signal(SIGTERM);
  EXPECT_EQ(agent.wait().code, 143);
  const Finished wrong = run({"agent", "--db", db, "--metrics", "9464"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_NE(wrong.err.find("--metrics: '9464' is not an address and a port"), std::string::npos)
      << wrong.err;
}

TEST(FleetOfAFile, ATuningWhoseTunerWasKilledIsSaidToBeGone) {
  const std::string db = write_file("t.db", ""), plan = write_file("t.plan", "");
  std::filesystem::remove(db);
  Background tuning({"tune", "--op", kOp, "--threads", "1", "--peers", "none", "--policy", "random",
                     "--db", db, "--plan", plan, "--agents", "any", "--trials", "4"});
  const auto state = [&]() -> std::string {
    const Finished done = run({"fleet", "status", "--db", db, "--json"});
    if (done.code != 0) return "";
    const Json tunings = Json::parse(done.out)["tunings"];
    return tunings.empty() ? "" : tunings[0]["state"].get<std::string>();
  };
  for (int i = 0; i < 1000 && state().empty(); ++i) std::this_thread::sleep_for(20ms);
  EXPECT_EQ(state(), "open");
  tuning.signal(SIGKILL);
  EXPECT_EQ(tuning.wait().signal, SIGKILL);
  {
    // As a minute later.
    const auto connection = record::Connection::open(db, record::OpenMode::kCreate);
    ASSERT_TRUE(connection->execute("UPDATE tunings SET seen = seen - 60000").ok());
  }
  EXPECT_EQ(state(), "gone");
  const Finished table = run({"fleet", "status", "--db", db});
  EXPECT_NE(table.out.find(" gone "), std::string::npos) << table.out;
}

TEST(FleetOfAFile, IsSimulated) {
  const std::string db = write_file("t.db", "");
  std::filesystem::remove(db);
  ASSERT_EQ(run({"db", "list", "--db", db}).code, 6) << "it is not there yet";
  const Finished done =
      run({"fleet", "simulate", "--db", db, "--trials", "60", "--agents", "2", "--json"});
  ASSERT_EQ(done.code, 0) << done.err;
  EXPECT_EQ(Json::parse(done.out)["trials"], 60);
  const Finished text = run({"fleet", "simulate", "--db", db, "--trials", "20", "--batch", "16"});
  EXPECT_NE(text.out.find("20 trials in"), std::string::npos) << text.out;
  const Finished paced =
      run({"fleet", "simulate", "--db", db, "--trials", "8", "--rate", "40", "--json"});
  ASSERT_EQ(paced.code, 0) << paced.err;
  EXPECT_EQ(Json::parse(paced.out)["rate"], 40);
  EXPECT_GE(Json::parse(paced.out)["claims"], 8);
  EXPECT_EQ(run({"fleet", "simulate", "--db", db, "--rate", "0"}).code, 2);
}

TEST(FleetLaunchers, WriteWhatStartsAgents) {
  const std::string url = "postgresql://db.example/tuning";
  for (const auto& [kind, word] :
       std::vector<std::pair<std::string, std::string>>{{"systemd", "ExecStart="},
                                                        {"slurm", "#SBATCH --array=0-0"},
                                                        {"kubernetes", "batch/v1"}}) {
    std::vector<std::string> args = {"fleet", kind, "--db", url, "--threads", "2"};
    if (kind == "kubernetes") args.insert(args.end(), {"--image", "registry.example/tessera"});
    const Finished done = run(args);
    EXPECT_EQ(done.code, 0) << done.err;
    EXPECT_NE(done.out.find(word), std::string::npos) << done.out;
    EXPECT_NE(done.out.find(url), std::string::npos);
    args[3] = "tuning.db";
    EXPECT_EQ(run(args).code, 2) << "a file is of one machine";
    args[3] = "postgresql://ada:secret@db.example/tuning";
    const Finished secret = run(args);
    EXPECT_EQ(secret.code, 2);
    EXPECT_EQ((secret.out + secret.err).find("secret"), std::string::npos) << secret.err;
  }
  const Finished grant = run({"fleet", "grant", "an \"agent"});
  EXPECT_NE(grant.out.find("TO \"an \"\"agent\""), std::string::npos) << grant.out;
  EXPECT_EQ(grant.out.find("DELETE"), std::string::npos);
}

}  // namespace
}  // namespace tessera::cli
