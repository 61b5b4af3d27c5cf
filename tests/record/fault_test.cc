// What may happen to a writer: it is killed, the disk is full, another one writes beside it.
#include <csignal>
#include <cstdlib>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/trials/record/database.h"
#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

class FaultTest : public TempFolder {};

// Runs `body` in another process; its return value is the exit status.
template <class Body>
pid_t start(Body body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  return child;
}

int status_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST_F(FaultTest, KilledWriterLosesNothingItWasToldIsStored) {
  for (int round = 0; round < 5; ++round) {
    const std::string file = path("a" + std::to_string(round) + ".db");
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    const pid_t child = start([&] {
      ::close(pipe[0]);
      Result<Database> database = Database::open(file);
      for (int n = 1; database.ok(); ++n) {
        if (!database->append({sample_record(2 * n - 1), sample_record(2 * n)}).ok()) return 1;
        if (::write(pipe[1], &n, sizeof n) != sizeof n) return 2;
      }
      return 3;
    });
    ::close(pipe[1]);
    int returned = 0;
    for (int n = 0; returned < 5 + 7 * round && ::read(pipe[0], &n, sizeof n) == sizeof n;) {
      returned = n;
    }
    ::kill(child, SIGKILL);
    for (int n = 0; ::read(pipe[0], &n, sizeof n) == sizeof n;) returned = n;
    ::close(pipe[0]);
    EXPECT_TRUE(WIFSIGNALED(status_of(child)));
    Result<Database> database = Database::open(file);
    ASSERT_TRUE(database.ok()) << database.error().message;
    const std::int64_t count = *database->count({});
    EXPECT_EQ(count % 2, 0) << "half a batch";
    EXPECT_GE(count, 2 * returned);
    EXPECT_LE(count, 2 * returned + 2);
    for (int n = 1; n <= 2 * returned; ++n) {
      Record want = sample_record(n);
      want.id = n;
      ASSERT_EQ(database->find(n)->value(), want);
    }
    EXPECT_TRUE(database->append({sample_record(1)}).ok());
  }
}

// A file size limit makes writes fail as a disk that is full does; raising it gives the space back.
int append_until_full(const std::string& file) {
  ::signal(SIGXFSZ, SIG_IGN);
  Result<Database> database = Database::open(file);
  if (!database.ok() || !database->append({sample_record(1)}).ok()) return 1;
  rlimit limit{};
  ::getrlimit(RLIMIT_FSIZE, &limit);
  const rlim_t old = limit.rlim_cur;
  limit.rlim_cur = 300 * 1024;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  Record large = sample_record(1);
  large.candidate = std::string(5000, 'x');
  int stored = 1;
  Result<void> result;
  while ((result = database->append({large, large, large})).ok()) stored += 3;
  if (result.error().code != ErrorCode::kIo || result.error().message.find(file) != 0) return 2;
  if (database->append({large, large, large}).ok()) return 3;
  if (*database->count({}) != stored || stored < 4) return 4;
  limit.rlim_cur = old;
  ::setrlimit(RLIMIT_FSIZE, &limit);
  if (!database->append({large, large, large}).ok()) return 5;
  return *database->count({}) == stored + 3 ? 0 : 6;
}

TEST_F(FaultTest, FullDiskIsAnErrorAndPasses) {
  const int status = status_of(start([&] { return append_until_full(path("a.db")); }));
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the check that failed";
  const Result<Database> database = Database::open_read_only(path("a.db"));
  ASSERT_TRUE(database.ok()) << database.error().message;
  EXPECT_GT(*database->count({}), 4);
}

TEST_F(FaultTest, SeveralWritersAtOnceAllSucceed) {
  constexpr int kWriters = 4, kBatches = 25;
  std::vector<pid_t> children;
  for (int writer = 0; writer < kWriters; ++writer) {
    children.push_back(start([&] {
      Result<Database> database = Database::open(path("a.db"));  // they race to create it too
      if (!database.ok()) return 1;
      const Result<std::int64_t> session = database->begin_session({.model = "m"});
      if (!session.ok()) return 2;
      for (int batch = 0; batch < kBatches; ++batch) {
        Record r = sample_record(batch, "task" + std::to_string(writer));
        r.session = *session;
        if (!database->add_tasks({{.key = r.task}}).ok()) return 3;
        if (!database->append({r, r}).ok()) return 4;
      }
      return database->end_session(*session, "done").ok() ? 0 : 5;
    }));
  }
  for (const pid_t child : children) {
    const int status = status_of(child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << WEXITSTATUS(status);
  }
  const Result<Database> database = Database::open(path("a.db"));
  EXPECT_EQ(*database->count({}), 2 * kWriters * kBatches);
  EXPECT_EQ(database->tasks()->size(), std::size_t{kWriters});
  const Result<std::vector<SessionRow>> sessions = database->sessions();
  for (const SessionRow& session : *sessions) EXPECT_EQ(session.records, 2 * kBatches);
}

TEST_F(FaultTest, ReadersDoNotDisturbAWriter) {
  Result<Database> writer = Database::open(path("a.db"));
  ASSERT_TRUE(writer->append({sample_record(1), sample_record(2)}).ok());
  const Result<Database> reader = Database::open_read_only(path("a.db"));
  ASSERT_TRUE(reader
                  ->visit({},
                          [&](const Record&) {
                            EXPECT_TRUE(writer->append({sample_record(3)}).ok());
                            return true;
                          })
                  .ok());
  EXPECT_EQ(*reader->count({}), 4);
}

TEST_F(FaultTest, ReadsWhereNothingCanBeWritten) {
  { ASSERT_TRUE(Database::open(path("a.db"))->append({sample_record(1)}).ok()); }
  namespace fs = std::filesystem;
  const fs::perms read = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  const fs::perms enter = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  fs::permissions(path("a.db"), read);
  fs::permissions(path(""), read | enter);
  const int status = status_of(start([&] {
    // Root may write everywhere.
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 1;
    Result<Database> database = Database::open_read_only(path("a.db"));
    if (!database.ok() || *database->count({}) != 1) return 2;
    const Result<Database> writing = Database::open(path("a.db"));
    return writing.ok() || writing.error().code != ErrorCode::kIo ? 3 : 0;
  }));
  fs::permissions(path(""), fs::perms::owner_all);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0) << "the number of the check that failed";
}

}  // namespace
}  // namespace tessera::record
