#include "tessera/trials/record/database.h"

#include <fstream>

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

TEST_F(DatabaseTest, KeepsEveryField) {
  std::vector<Record> records = {sample_record(1), failed_record(2, "run_error", "signal 11")};
  records[1].extra = "{\"v\":1}";
  records[1].format = "ansor";
  {
    Result<Database> database = Database::open(path("a.db"));
    ASSERT_TRUE(database.ok()) << database.error().message;
    ASSERT_TRUE(database->append(records).ok());
  }
  const Result<Database> database = Database::open_read_only(path("a.db"));
  ASSERT_TRUE(database.ok()) << database.error().message;
  records[0].id = 1;
  records[1].id = 2;
  EXPECT_EQ(all(*database), records);
  EXPECT_EQ(database->find(2)->value(), records[1]);
  EXPECT_FALSE(database->find(3)->has_value());
}

TEST_F(DatabaseTest, TextsMayHoldAnything) {
  Record r = sample_record(1);
  r.candidate = std::string("a\0b", 3);
  r.reason = "'; DROP TABLE records; -- \xff\n";
  r.task = "";
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(database->append({r}).ok());
  r.id = 1;
  EXPECT_EQ(all(*database).at(0), r);
}

TEST_F(DatabaseTest, SchedulesAndTheirLinesAreKeptOnce) {
  const auto count = [&](const char* table) {
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(path("a.db").c_str(), &handle), SQLITE_OK);
    int rows = 0;
    const auto add = [](void* out, int, char** values, char**) {
      *static_cast<int*>(out) = std::atoi(values[0]);
      return 0;
    };
    const std::string sql = std::string("SELECT count(*) FROM ") + table;
    EXPECT_EQ(sqlite3_exec(handle, sql.c_str(), add, &rows, nullptr), SQLITE_OK);
    sqlite3_close(handle);
    return rows;
  };
  Record unknown = sample_record(9);
  unknown.schedule.clear();
  {
    Result<Database> database = Database::open(path("a.db"));
    ASSERT_TRUE(database->append({sample_record(1), sample_record(2), sample_record(1)}).ok());
  }
  const int texts = count("texts");
  Result<Database> again = Database::open(path("a.db"));  // nothing in memory
  ASSERT_TRUE(again->append({sample_record(2), unknown}).ok());
  EXPECT_EQ(count("schedules"), 2);
  EXPECT_EQ(count("texts"), texts);
  const std::vector<Record> read = all(*again);
  ASSERT_EQ(read.size(), 5u);
  EXPECT_EQ(read[0].schedule, sample_record(1).schedule);
  EXPECT_EQ(read[3].schedule, sample_record(2).schedule);
  EXPECT_EQ(read[4].schedule, "");
}

TEST_F(DatabaseTest, FindsWhatWasQuiet) {
  Result<Database> database = Database::open(path("a.db"));
  Record loud = sample_record(2);
  loud.quiet = false;
  ASSERT_TRUE(database->append({sample_record(1), loud}).ok());
  EXPECT_EQ(*database->count({}), 2);
  EXPECT_EQ(*database->count({.quiet = true}), 1);
  EXPECT_EQ(all(*database, {.quiet = true}).at(0).trial, 1);
}

TEST_F(DatabaseTest, SubjectsAreKeptApart) {
  Result<Database> database = Database::open(path("a.db"));
  Record in_place = sample_record(1), whole = sample_record(1, "m");
  in_place.subject = Subject::kInPlace;
  in_place.model = "m";
  whole.subject = Subject::kModel;
  ASSERT_TRUE(database->append({sample_record(2), in_place, whole}).ok());
  EXPECT_EQ(*database->count({}), 1);
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 3);
  in_place.id = 2;
  EXPECT_EQ(all(*database, {.subject = Subject::kInPlace}), std::vector<Record>{in_place});
  EXPECT_EQ(database->best({}, 9)->size(), 1u);
  EXPECT_EQ(database->best({.subject = Subject::kModel}, 9)->at(0).task, "m");
  const Result<std::vector<TaskSummary>> rows = database->summaries({.subject = std::nullopt});
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 3u);
  EXPECT_EQ((*rows)[0].subject, Subject::kKernel);
  EXPECT_EQ((*rows)[1].task, (*rows)[0].task);
  EXPECT_EQ((*rows)[1].subject, Subject::kInPlace);
  EXPECT_EQ((*rows)[2].subject, Subject::kModel);
}

TEST_F(DatabaseTest, AnUnknownSubjectIsDamage) {
  { ASSERT_TRUE(Database::open(path("a.db"))->append({sample_record(1)}).ok()); }
  run_sql(path("a.db"), "UPDATE records SET subject = 7");
  const Result<std::optional<Record>> found = Database::open_read_only(path("a.db"))->find(1);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("unknown subject 7"), std::string::npos);
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

TEST_F(DatabaseTest, ALineOfAScheduleThatIsGoneIsDamage) {
  {
    Result<Database> database = Database::open(path("a.db"));
    ASSERT_TRUE(database->append({sample_record(1)}).ok());
  }
  run_sql(path("a.db"), "DELETE FROM texts WHERE text LIKE 'annotate%'");
  const Result<Database> database = Database::open_read_only(path("a.db"));
  const Result<std::optional<Record>> found = database->find(1);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
}

TEST_F(DatabaseTest, SessionsAndTasks) {
  Result<Database> database = Database::open(path("a.db"));
  SessionRow session{.model = "zoo:mlp", .target = "t", .options = "{}", .version = "0.1.0"};
  session.threads = 2;
  session.seed = ~0ull;
  session.started = 5;
  const Result<std::int64_t> id = database->begin_session(session);
  ASSERT_TRUE(id.ok());
  const TaskRow task{.key = "k", .name = "conv", .definition = "text", .flops = 2e9, .bytes = 3};
  ASSERT_TRUE(database->add_tasks({task}).ok());
  TaskRow again = task, more = task;
  again.name = "other";
  more.key = "k2";
  ASSERT_TRUE(database->add_tasks({again, more}).ok());
  EXPECT_EQ(*database->tasks(), (std::vector<TaskRow>{task, more}));
  Record r = sample_record(1);
  r.session = *id;
  ASSERT_TRUE(database->append({r, r}).ok());
  session.id = *id;
  session.records = 2;
  session.state = "running";
  EXPECT_EQ(*database->sessions(), std::vector<SessionRow>{session});
  ASSERT_TRUE(database->end_session(*id, "done").ok());
  EXPECT_EQ(database->sessions()->at(0).state, "done");
  EXPECT_GT(database->sessions()->at(0).ended, 1'600'000'000);
  const Result<void> unknown = database->end_session(99, "done");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("no session 99"), std::string::npos);
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
  for (const auto& [kept, state] :
       {std::pair("running 1 1 elsewhere", "running"), std::pair("running", "killed"),
        std::pair("running x", "killed"), std::pair("done", "done")}) {
    EXPECT_EQ(state_now(kept), state);
  }
}

TEST_F(DatabaseTest, BestIsFastestWholeAndDistinct) {
  Result<Database> database = Database::open(path("a.db"));
  Record censored = sample_record(1);
  censored.outcome = "censored";
  Record other = sample_record(2, "00000000000000bb");
  ASSERT_TRUE(database
                  ->append({sample_record(5), sample_record(3), sample_record(4), sample_record(3),
                            censored, failed_record(1, "build_error", "x"), other})
                  .ok());
  const Result<std::vector<Record>> best = database->best({.task = "00000000000000aa"}, 10);
  ASSERT_TRUE(best.ok()) << best.error().message;
  ASSERT_EQ(best->size(), 3u);
  EXPECT_EQ((*best)[0].trial, 3);
  EXPECT_EQ((*best)[1].trial, 4);
  EXPECT_EQ((*best)[2].trial, 5);
  EXPECT_EQ(database->best({.task = "00000000000000aa"}, 1)->size(), 1u);
  EXPECT_EQ(database->best({}, 1)->at(0).task, "00000000000000bb");
  EXPECT_TRUE(database->best({.task = "none"}, 1)->empty());
}

TEST_F(DatabaseTest, SummariesCountByTask) {
  Result<Database> database = Database::open(path("a.db"));
  Record censored = sample_record(1, "b");
  censored.outcome = "censored";
  Record failed = failed_record(7, "run_error", "x");
  failed.task = "b";
  ASSERT_TRUE(database
                  ->append({sample_record(4, "b"), sample_record(3, "a"), censored, failed,
                            sample_record(2, "b")})
                  .ok());
  const Result<std::vector<TaskSummary>> rows = database->summaries({});
  ASSERT_TRUE(rows.ok()) << rows.error().message;
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].task, "b");
  EXPECT_EQ((*rows)[0].records, 4);
  EXPECT_EQ((*rows)[0].timed, 3);
  EXPECT_EQ((*rows)[0].best_s, sample_record(2).seconds);
  EXPECT_EQ((*rows)[1].records, 1);
  EXPECT_EQ(database->summaries({.task = "a"})->size(), 1u);
  EXPECT_TRUE(database->summaries({.task = "none"})->empty());
}

TEST_F(DatabaseTest, FiltersCombine) {
  Result<Database> database = Database::open(path("a.db"));
  std::vector<Record> records;
  for (int i = 1; i <= 8; ++i) {
    Record r = sample_record(i, i % 2 ? "odd" : "even");
    r.threads = i <= 4 ? 1 : 2;
    r.session = i;
    r.target = i == 1 ? "x" : "y";
    r.format = i == 8 ? "ansor" : "tessera";
    if (i == 3) r.outcome = "run_timeout";
    records.push_back(r);
  }
  ASSERT_TRUE(database->append(records).ok());
  const auto count = [&](const Filter& filter) { return *database->count(filter); };
  EXPECT_EQ(count({}), 8);
  EXPECT_EQ(count({.task = "odd"}), 4);
  EXPECT_EQ(count({.task = "odd", .threads = 1}), 2);
  EXPECT_EQ(count({.task = "odd", .threads = 1, .timed_only = true}), 1);
  EXPECT_EQ(count({.targets = {"x"}}), 1);
  EXPECT_EQ(count({.targets = {"x", "y", "z"}}), 8);
  EXPECT_EQ(count({.targets = {"z"}}), 0);
  EXPECT_EQ(count({.format = "ansor"}), 1);
  EXPECT_EQ(count({.session = 3}), 1);
  EXPECT_EQ(count({.task = "even", .targets = {"x"}}), 0);
  EXPECT_EQ(all(*database, {.task = "even", .threads = 2}).size(), 2u);
}

TEST_F(DatabaseTest, KnowsTheTargetsOfItsRecords) {
  Result<Database> database = Database::open(path("a.db"));
  std::vector<Record> records = {sample_record(1, "a"), sample_record(2, "a"),
                                 sample_record(3, "a")};
  records[0].target = "host triple=x cores=1";
  records[1].target = "host triple=x cores=2";
  records[2].target = "llvm -keys=cpu";
  ASSERT_TRUE(database->append(records).ok());
  EXPECT_EQ(*database->targets(),
            (std::vector<std::string>{"host triple=x cores=1", "host triple=x cores=2"}));
}

TEST_F(DatabaseTest, VisitStopsWhenTold) {
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(database->append({sample_record(1), sample_record(2), sample_record(3)}).ok());
  int seen = 0;
  ASSERT_TRUE(database->visit({}, [&](const Record&) { return ++seen < 2; }).ok());
  EXPECT_EQ(seen, 2);
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

TEST_F(DatabaseTest, ReadOnlyRefusesToWrite) {
  { ASSERT_TRUE(Database::open(path("a.db"))->append({sample_record(1)}).ok()); }
  Result<Database> database = Database::open_read_only(path("a.db"));
  ASSERT_TRUE(database.ok());
  const Result<void> result = database->append({sample_record(2)});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("read-only"), std::string::npos) << result.error().message;
  EXPECT_EQ(*database->count({}), 1);
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
