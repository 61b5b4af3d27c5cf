// What may happen to those who use a queue, and to its server.
#include <atomic>
#include <csignal>
#include <random>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fleet/agents.h"
#include "tests/fleet/history.h"
#include "tests/record/both_engines.h"
#include "tests/testing/postgres_proxy.h"

namespace tessera::fleet {
namespace {

using namespace std::chrono_literals;
using record::EngineKind;
using tessera::testing::PostgresProxy;
using tessera::testing::PostgresServer;

constexpr std::chrono::milliseconds kLease{150};

std::vector<NewTrial> some(int count) {
  return std::vector<NewTrial>(static_cast<std::size_t>(count));
}

// Claims and reports until nothing is open. Counts what was accepted.
int work(const std::string& place, unsigned seed, double share_dropped) {
  Result<Queue> queue = Queue::open(place);
  if (!queue.ok()) return -1;
  const auto agent = new_agent(*queue, "a");
  if (!agent.ok()) return -1;
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> draw(0, 1);
  int accepted = 0;
  for (;;) {
    const auto claims = queue->claim(*agent, 1 + static_cast<int>(random() % 8), kLease);
    if (!claims.ok()) return -1;
    if (claims->empty()) {
      const auto counts = queue->counts();
      if (!counts.ok()) return -1;
      if (counts->queued + counts->claimed == 0) return accepted;
      std::this_thread::sleep_for(20ms);
      continue;
    }
    std::vector<TrialResult> results;
    for (const Claim& c : *claims) {
      if (draw(random) >= share_dropped) results.push_back({c.trial, c.attempt, "r"});
    }
    // Too late, now and then: another has it already.
    if (draw(random) < share_dropped) std::this_thread::sleep_for(2 * kLease);
    if (results.empty()) continue;
    for (const bool twice : {false, true}) {
      const auto done = queue->report(*agent, results);
      if (!done.ok()) return -1;
      accepted += twice ? 0 : static_cast<int>(done->size());
    }
  }
}

class QueueFault : public record::BothEngines {
 protected:
  void SetUp() override {
    BothEngines::SetUp();
    if (IsSkipped()) return;
    ASSERT_TRUE(record::Database::open(place("a")).ok());
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, QueueFault,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         record::engine_name);

TEST_P(QueueFault, FourClaimersDropAndDelay) {
  Queue queue = Queue::open(place("a")).value();
  ASSERT_TRUE(queue.enqueue(1, some(120)).ok());
  std::vector<std::thread> threads;
  std::atomic<int> accepted = 0, failed = 0;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const int done = work(place("a"), 17 + t, 0.1);
      accepted += std::max(done, 0);
      failed += done < 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  const QueueCounts counts = queue.counts().value();
  EXPECT_EQ(counts.done + counts.given_up, 120);
  EXPECT_EQ(accepted, counts.done);
  EXPECT_GT(counts.taken_over, 0) << "no lease ran out";
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

TEST_P(QueueFault, AKilledClaimerIsFollowedByAnother) {
  { ASSERT_TRUE(Queue::open(place("a"))->enqueue(1, some(40)).ok()); }
  int killed = 0;
  for (int round = 0; round < 3; ++round) {
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      Queue queue = Queue::open(place("a")).value();
      const std::int64_t agent = new_agent(queue, "victim").value();
      const auto claims = queue.claim(agent, 5, kLease).value();
      (void)queue.report(agent, {{claims[0].trial, claims[0].attempt, "r"}});
      if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
      // In the middle of whatever it does next.
      for (;;) (void)queue.renew(agent, kLease);
    }
    char byte = 0;
    ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    killed += WIFSIGNALED(status) ? 1 : 0;
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
  EXPECT_EQ(killed, 3);
  EXPECT_EQ(work(place("a"), 5, 0), 37);
  Queue queue = Queue::open(place("a")).value();
  EXPECT_EQ(queue.counts()->done, 40);
  EXPECT_EQ(queue.counts()->taken_over, 3 * 4);
  EXPECT_EQ(fault_of_history(place("a"), true), "");
}

// A store without the check of the lease accepts what an agent reports too late.
TEST_P(QueueFault, TheHistoryShowsAMissingCheckOfTheLease) {
  Queue queue = Queue::open(place("a")).value();
  const std::int64_t trial = queue.enqueue(1, some(1))->at(0);
  const std::int64_t slow = new_agent(queue, "slow").value();
  const std::int64_t other = new_agent(queue, "other").value();
  ASSERT_EQ(queue.claim(slow, 1, 1ms)->size(), 1u);
  std::this_thread::sleep_for(20ms);
  ASSERT_EQ(queue.claim(other, 1, 60s)->size(), 1u);
  ASSERT_TRUE(queue.report(slow, {{trial, 1, "late"}})->empty());
  EXPECT_EQ(fault_of_history(place("a"), false), "");
  {
    // What report() does, without its condition.
    const auto connection = record::Connection::open(place("a"), record::OpenMode::kCreate);
    ASSERT_TRUE(connection
                    ->execute(fmt::format("UPDATE trials SET state = 2, reported = 1, reporter = "
                                          "{1} WHERE id = {0}",
                                          trial, slow))
                    .ok());
  }
  EXPECT_NE(fault_of_history(place("a"), false), "");
}

class ServerFault : public ::testing::Test {
 protected:
  void SetUp() override {
    server_ = PostgresServer::get();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::why_absent();
    url_ = server_->make_database("faults");
    ASSERT_TRUE(record::Database::open(url_).ok());
    ASSERT_TRUE(Queue::open(url_)->enqueue(1, some(150)).ok());
  }

  PostgresServer* server_ = nullptr;
  std::string url_;
};

TEST_F(ServerFault, TheServerCrashesAndComesBack) {
  std::vector<std::thread> threads;
  std::atomic<int> accepted = 0, failed = 0, running = 2;
  for (unsigned t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      const int done = work(url_, 3 + t, 0.05);
      accepted += std::max(done, 0);
      failed += done < 0;
      --running;
    });
  }
  int crashes = 0;
  for (; crashes < 2 && running > 0; ++crashes) {
    std::this_thread::sleep_for(150ms);
    server_->crash();
    ASSERT_TRUE(server_->start());
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(crashes, 0);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(accepted, Queue::open(url_)->counts()->done);
  EXPECT_EQ(fault_of_history(url_, true), "");
}

// A network that swallows all for longer than a lease: others take over what was held beyond it.
TEST_F(ServerFault, BytesVanishForLongerThanALease) {
  PostgresProxy proxy(*server_);
  const std::string name = url_.substr(14, url_.find('?') - 14);
  std::atomic<int> accepted = 0, failed = 0, running = 2;
  std::vector<std::thread> threads;
  for (const std::string& place : {proxy.url(name), url_}) {
    threads.emplace_back([&, place, seed = 23 + static_cast<unsigned>(threads.size())] {
      const int done = work(place, seed, 0.05);
      accepted += std::max(done, 0);
      failed += done < 0;
      --running;
    });
  }
  Queue queue = Queue::open(url_).value();
  while (Roster(queue).agents()->size() < 2) std::this_thread::sleep_for(2ms);
  while (running > 0) {
    proxy.cut(PostgresProxy::Cut::kDrop);
    std::this_thread::sleep_for(2 * kLease);
    proxy.cut(PostgresProxy::Cut::kNone);
    std::this_thread::sleep_for(kLease);
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(proxy.cuts(), 0) << "the fault did not happen";
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(accepted, queue.counts()->done);
  EXPECT_EQ(fault_of_history(url_, true), "");
}

TEST_F(ServerFault, LinesAreCutAroundCommits) {
  PostgresProxy proxy(*server_);
  const std::string name = url_.substr(14, url_.find('?') - 14);
  std::atomic<int> accepted = 0;
  std::atomic<bool> done = false;
  std::thread worker([&] {
    accepted = work(proxy.url(name), 11, 0.05);
    done = true;
  });
  bool before = false;
  while (!done) {
    std::this_thread::sleep_for(15ms);
    before = !before;
    proxy.cut(before ? PostgresProxy::Cut::kBeforeCommit : PostgresProxy::Cut::kAfterCommit);
  }
  worker.join();
  EXPECT_GT(proxy.cuts(), 0) << "the fault did not happen";
  EXPECT_EQ(accepted, Queue::open(url_)->counts()->done);
  EXPECT_EQ(fault_of_history(url_, true), "");
}

}  // namespace
}  // namespace tessera::fleet
