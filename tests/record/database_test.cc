#include "tessera/trials/record/database.h"

#include <fstream>
#include <tuple>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tessera/trials/record/session_owner.h"
#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

class DatabaseTest : public TempFolder {};

std::vector<Record> all(const Database& database, const Filter& filter = {}) {
  std::vector<Record> records;
  const Result<void> visited = database.visit(filter, [&](const Record& r) {
    records.push_back(r);
    return true;
  });
  EXPECT_TRUE(visited.ok()) << visited.error().message;
  return records;
}

void run_sql(const std::string& path, const char* sql) {
  sqlite3* handle = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &handle), SQLITE_OK);
  ASSERT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, nullptr), SQLITE_OK)
      << sqlite3_errmsg(handle);
  sqlite3_close(handle);
}

// The tables of the first version, as programs of then made them.
constexpr const char* kFirstVersion = R"(
CREATE TABLE schema_version (version INTEGER NOT NULL);
CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);
INSERT INTO texts VALUES (1, 'ok'), (2, 'censored'), (3, 'tessera'), (4, 'old'), (5, 't'), (6, 'p');
CREATE TABLE sessions (
  id INTEGER PRIMARY KEY, model TEXT, target TEXT, options TEXT, version TEXT, threads INTEGER,
  seed INTEGER, started INTEGER, ended INTEGER, state TEXT);
CREATE TABLE tasks (
  id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, name TEXT, definition TEXT, flops REAL,
  bytes REAL);
INSERT INTO tasks VALUES (1, 'old', 'conv', 'text', 1, 2);
CREATE TABLE records (
  id INTEGER PRIMARY KEY, session INTEGER, format INTEGER, task INTEGER, target INTEGER,
  threads INTEGER, candidate TEXT, digest TEXT, outcome INTEGER, reason TEXT, samples BLOB,
  seconds REAL, calibration REAL, build_ms REAL, policy INTEGER, seed INTEGER, trial INTEGER,
  time INTEGER, extra TEXT);
CREATE INDEX records_by_task ON records (task);
CREATE INDEX records_by_session ON records (session);
CREATE INDEX records_by_time ON records (task, seconds) WHERE outcome = 1;
INSERT INTO records VALUES
  (1, 0, 3, 4, 5, 1, 'one: x.a=1', 'abc', 1, '', '', 0.5, 0, 0, 6, 1, 1, 1, '');
INSERT INTO schema_version VALUES (1);
)";

TEST_F(DatabaseTest, TheFirstVersionIsReadAndBroughtUpToDate) {
  run_sql(path("old.db"), kFirstVersion);
  {
    const Result<Database> old = Database::open_read_only(path("old.db"));
    ASSERT_TRUE(old.ok()) << old.error().message;
    EXPECT_TRUE(*old->is_outdated());
    EXPECT_EQ(all(*old).at(0).candidate, "one: x.a=1");
    EXPECT_EQ(*old->count({.quiet = true}), 0);
    EXPECT_TRUE(old->best({.quiet = true}, 1)->empty());
  }
  Result<Database> database = Database::open(path("old.db"));
  ASSERT_TRUE(database.ok()) << database.error().message;
  EXPECT_TRUE(*database->is_outdated());  // until someone says what the rows mean today
  ASSERT_TRUE(database->append({sample_record(2, "old")}).ok());
  const auto updated = database->update(
      [](const TaskRow& row) {
        TaskRow out = row;
        out.key = "new";
        return out;
      },
      [](Record* r) {
        r->task = "new";
        if (r->schedule.empty()) r->schedule = "split C i 1\n";
      });
  ASSERT_TRUE(updated.ok()) << updated.error().message;
  EXPECT_EQ(*updated, 2);
  EXPECT_FALSE(*database->is_outdated());
  EXPECT_EQ(database->tasks()->at(0).key, "new");
  const std::vector<Record> records = all(*database, {.task = "new"});
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].schedule, "split C i 1\n");
  EXPECT_EQ(records[0].seconds, 0.5);
  EXPECT_EQ(records[1].schedule, sample_record(2).schedule);
  { EXPECT_FALSE(*Database::open(path("new.db"))->is_outdated()); }
}

// Tables of the second version, which kept marks of times as JSON in `extra`.
TEST_F(DatabaseTest, TheSecondVersionIsReadAndBroughtUpToDate) {
  Record cold = sample_record(1), foreign = sample_record(2);
  cold.default_s = 0;
  foreign.format = "ansor";
  foreign.cold = foreign.unchecked = false;
  foreign.evicted_bytes = 0;
  foreign.memory_s = foreign.default_s = 0;
  foreign.extra = R"({"cold_caches":true})";  // of another program
  { ASSERT_TRUE(Database::open(path("old.db"))->append({cold, foreign}).ok()); }
  run_sql(path("old.db"), R"(
UPDATE records SET extra =
  '{"cold_caches":true,"evicted_bytes":4096,"unchecked":true,"memory_s":0.0003}' WHERE id = 1;
ALTER TABLE records DROP COLUMN subject;
ALTER TABLE records DROP COLUMN model;
ALTER TABLE records DROP COLUMN cold;
ALTER TABLE records DROP COLUMN evicted;
ALTER TABLE records DROP COLUMN unchecked;
ALTER TABLE records DROP COLUMN default_s;
ALTER TABLE records DROP COLUMN memory_s;
UPDATE schema_version SET version = 2;
)");
  cold.id = 1;
  foreign.id = 2;
  const std::vector<Record> records = {cold, foreign};
  {
    const Result<Database> old = Database::open_read_only(path("old.db"));
    ASSERT_TRUE(old.ok()) << old.error().message;
    EXPECT_EQ(all(*old), records);
    EXPECT_EQ(*old->count({.subject = Subject::kInPlace}), 0);
    EXPECT_EQ(old->summaries({.subject = std::nullopt})->size(), 1u);
  }
  const Result<Database> database = Database::open(path("old.db"));
  ASSERT_TRUE(database.ok()) << database.error().message;
  EXPECT_EQ(all(*database), records);
  EXPECT_EQ(*database->count({.subject = Subject::kInPlace}), 0);
}

TEST_F(DatabaseTest, ASessionRunsOnlyAsLongAsItsProcess) {
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(database->begin_session({.model = "m"}).ok());
  EXPECT_EQ(database->sessions()->at(0).state, "running");
  const pid_t child = fork();
  if (child == 0) {
    // The connection of the parent is not used here.
    Result<Database> own = Database::open(path("b.db"));
    _exit(own.ok() && own->begin_session({.model = "m"}).ok() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(Database::open_read_only(path("b.db"))->sessions()->at(0).state, "killed");
  // A process of another machine cannot be asked; an older program named none.
  for (const auto& [kept, silent_s, state] :
       {std::tuple("running 1 1 elsewhere", -1, "running"),
        std::tuple("running 1 1 elsewhere", 60, "running"),
        std::tuple("running 1 1 elsewhere", 900, "killed"), std::tuple("running", 0, "killed"),
        std::tuple("running x", 0, "killed"), std::tuple("done", 900, "done")}) {
    EXPECT_EQ(state_now(kept, silent_s), state) << kept << " " << silent_s;
  }
}

TEST_F(DatabaseTest, SizeLimitIsLikeAFullDisk) {
  Result<Database> database = Database::open(path("a.db"), 256 * 1024);
  ASSERT_TRUE(database.ok()) << database.error().message;
  Record large = sample_record(1);
  large.candidate = std::string(10'000, 'x');
  int written = 0;
  Result<void> result;
  while ((result = database->append({large, large})).ok()) written += 2;
  EXPECT_EQ(result.error().code, ErrorCode::kIo);
  EXPECT_NE(result.error().message.find("no space is left"), std::string::npos)
      << result.error().message;
  EXPECT_GT(written, 10);
  EXPECT_EQ(*database->count({}), written);
  // New texts of the batch that failed must not be remembered as stored.
  Record fresh = large;
  fresh.policy = "new policy";
  EXPECT_FALSE(database->append({fresh, fresh}).ok());
  Result<Database> unlimited = Database::open(path("a.db"));
  ASSERT_TRUE(unlimited->append({fresh}).ok());
  EXPECT_EQ(*database->count({}), written + 1);
  EXPECT_EQ(database->find(written + 1)->value().policy, "new policy");
}

TEST_F(DatabaseTest, ReadingLeavesNoFilesBehind) {
  { ASSERT_TRUE(Database::open(path("a.db"))->append({sample_record(1)}).ok()); }
  { EXPECT_EQ(*Database::open_read_only(path("a.db"))->count({}), 1); }
  EXPECT_FALSE(std::filesystem::exists(path("a.db-wal")));
  EXPECT_FALSE(std::filesystem::exists(path("a.db-shm")));
}

TEST_F(DatabaseTest, RefusesWhatIsNoDatabase) {
  std::ofstream(path("text")) << "just some text that is longer than a header of SQLite's, which "
                                 "has a hundred bytes, so that it is read as one\n";
  for (const bool write : {true, false}) {
    const auto open = [&](const std::string& file) {
      return write ? Database::open(file) : Database::open_read_only(file);
    };
    EXPECT_NE(open(path("text")).error().message.find("not a database"), std::string::npos);
    EXPECT_NE(open(path("")).error().message.find("is a folder"), std::string::npos);
  }
  const Result<Database> absent = Database::open_read_only(path("absent.db"));
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(path("absent.db")));
  EXPECT_NE(Database::open(path("no/folder.db")).error().message.find("no folder"),
            std::string::npos);
  std::ofstream(path("empty"));
  EXPECT_NE(Database::open_read_only(path("empty")).error().message.find("is empty"),
            std::string::npos);
}

TEST_F(DatabaseTest, RefusesOtherProgramsAndNewerVersions) {
  run_sql(path("other.db"), "CREATE TABLE birds (name TEXT)");
  const Result<Database> other = Database::open(path("other.db"));
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message.find("another program"), std::string::npos);
  { ASSERT_TRUE(Database::open(path("new.db")).ok()); }
  run_sql(path("new.db"), "UPDATE schema_version SET version = 99");
  for (const Result<Database>& newer :
       {Database::open(path("new.db")), Database::open_read_only(path("new.db"))}) {
    ASSERT_FALSE(newer.ok());
    EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(newer.error().message.find("version 99"), std::string::npos);
  }
}

}  // namespace
}  // namespace tessera::record
