// What a database does on either engine.
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "tessera/trials/record/database.h"
#include "tessera/trials/record/json_lines.h"
#include "tessera/trials/record/session_owner.h"
#include "tessera/trials/record/session_summary.h"
#include "tessera/trials/record/statement.h"
#include "tests/record/both_engines.h"
#include "tests/record/sample_records.h"

namespace tessera::record {
namespace {

class StoreTest : public BothEngines {
 protected:
  void run_sql(const std::string& sql) {
    const auto connection = Connection::open(place("a"), Connection::Mode::kCreate);
    ASSERT_TRUE(connection.ok()) << connection.error().message;
    const Result<void> done = connection->execute(sql);
    ASSERT_TRUE(done.ok()) << done.error().message;
  }
};

INSTANTIATE_TEST_SUITE_P(Engines, StoreTest,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         engine_name);

TEST_P(StoreTest, KeepsEveryField) {
  std::vector<Record> records = {sample_record(1), failed_record(2, "run_error", "signal 11")};
  records[1].extra = "{\"v\":1}";
  records[1].format = "ansor";
  {
    Result<Database> database = Database::open(place("a"));
    ASSERT_TRUE(database.ok()) << database.error().message;
    ASSERT_TRUE(database->append(records).ok());
  }
  const Result<Database> database = Database::open_read_only(place("a"));
  ASSERT_TRUE(database.ok()) << database.error().message;
  records[0].id = 1;
  records[1].id = 2;
  EXPECT_EQ(all_records(*database), records);
  EXPECT_EQ(database->find(2)->value(), records[1]);
  EXPECT_FALSE(database->find(3)->has_value());
}

TEST_P(StoreTest, TextsMayHoldAnything) {
  Record r = sample_record(1);
  r.candidate = std::string("a\0b", 3);
  r.reason = "'; DROP TABLE records; -- \xff\n";
  r.task = "";
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->append({r}).ok());
  r.id = 1;
  EXPECT_EQ(all_records(*database).at(0), r);
}

TEST_P(StoreTest, SchedulesAndTheirLinesAreKeptOnce) {
  const auto count = [&](const std::string& table) {
    const auto connection = Connection::open(place("a"), Connection::Mode::kRead);
    return connection->query_integer("SELECT count(*) FROM " + table).value();
  };
  Record unknown = sample_record(9);
  unknown.schedule.clear();
  {
    Result<Database> database = Database::open(place("a"));
    ASSERT_TRUE(database->append({sample_record(1), sample_record(2), sample_record(1)}).ok());
  }
  const std::int64_t texts = count("texts");
  Result<Database> again = Database::open(place("a"));  // nothing in memory
  ASSERT_TRUE(again->append({sample_record(2), unknown}).ok());
  EXPECT_EQ(count("schedules"), 2);
  EXPECT_EQ(count("texts"), texts);
  const std::vector<Record> read = all_records(*again);
  ASSERT_EQ(read.size(), 5u);
  EXPECT_EQ(read[0].schedule, sample_record(1).schedule);
  EXPECT_EQ(read[3].schedule, sample_record(2).schedule);
  EXPECT_EQ(read[4].schedule, "");
}

TEST_P(StoreTest, FindsWhatWasQuiet) {
  Result<Database> database = Database::open(place("a"));
  Record loud = sample_record(2);
  loud.quiet = false;
  ASSERT_TRUE(database->append({sample_record(1), loud}).ok());
  EXPECT_EQ(*database->count({}), 2);
  EXPECT_EQ(*database->count({.quiet = true}), 1);
  EXPECT_EQ(all_records(*database, {.quiet = true}).at(0).trial, 1);
}

TEST_P(StoreTest, SubjectsAreKeptApart) {
  Result<Database> database = Database::open(place("a"));
  Record in_place = sample_record(1), whole = sample_record(1, "m");
  in_place.subject = Subject::kInPlace;
  in_place.model = "m";
  whole.subject = Subject::kModel;
  ASSERT_TRUE(database->append({sample_record(2), in_place, whole}).ok());
  EXPECT_EQ(*database->count({}), 1);
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 3);
  in_place.id = 2;
  EXPECT_EQ(all_records(*database, {.subject = Subject::kInPlace}), std::vector<Record>{in_place});
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

TEST_P(StoreTest, AnUnknownSubjectIsDamage) {
  { ASSERT_TRUE(Database::open(place("a"))->append({sample_record(1)}).ok()); }
  run_sql("UPDATE records SET subject = 7");
  const Result<std::optional<Record>> found = Database::open_read_only(place("a"))->find(1);
  ASSERT_FALSE(found.ok());
  EXPECT_NE(found.error().message.find("unknown subject 7"), std::string::npos);
}

TEST_P(StoreTest, ALineOfAScheduleThatIsGoneIsDamage) {
  {
    Result<Database> database = Database::open(place("a"));
    ASSERT_TRUE(database->append({sample_record(1)}).ok());
  }
  run_sql("DELETE FROM texts WHERE text LIKE 'annotate%'");
  const Result<Database> database = Database::open_read_only(place("a"));
  const Result<std::optional<Record>> found = database->find(1);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kIo);
}

TEST_P(StoreTest, SessionsAndTasks) {
  Result<Database> database = Database::open(place("a"));
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

TEST_P(StoreTest, ASessionElsewhereRunsAsLongAsItIsSeen) {
  Result<Database> database = Database::open(place("a"));
  const std::int64_t id = database->begin_session({.model = "m"}).value();
  const auto change = [&](const std::string& what) { run_sql("UPDATE sessions SET " + what); };
  const auto now = [&] { return database->sessions()->at(0); };
  change("state = 'running 1 1 elsewhere'");
  EXPECT_EQ(now().state, "running");
  change(fmt::format("ended = ended - {}", kSessionGoneS - 60));
  EXPECT_EQ(now().state, "running");
  EXPECT_EQ(now().ended, 0);
  change("ended = ended - 120");
  EXPECT_EQ(now().state, "killed");
  EXPECT_GT(now().ended, 1'600'000'000) << "when it was seen last";
  ASSERT_TRUE(database->session_seen(id).ok());
  EXPECT_EQ(now().state, "running");
  change("ended = 0");
  EXPECT_EQ(now().state, "running") << "an older program, which never tells";
  ASSERT_TRUE(database->end_session(id, "done").ok());
  change("ended = 7");
  ASSERT_TRUE(database->session_seen(id).ok());
  EXPECT_EQ(now().state, "done");
  EXPECT_EQ(now().ended, 7);
}

TEST_P(StoreTest, BestIsFastestWholeAndDistinct) {
  Result<Database> database = Database::open(place("a"));
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

TEST_P(StoreTest, SummariesCountByTask) {
  Result<Database> database = Database::open(place("a"));
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

TEST_P(StoreTest, FiltersCombine) {
  Result<Database> database = Database::open(place("a"));
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
  EXPECT_EQ(all_records(*database, {.task = "even", .threads = 2}).size(), 2u);
}

TEST_P(StoreTest, KnowsTheTargetsOfItsRecords) {
  Result<Database> database = Database::open(place("a"));
  std::vector<Record> records = {sample_record(1, "a"), sample_record(2, "a"),
                                 sample_record(3, "a")};
  records[0].target = "host triple=x cores=1";
  records[1].target = "host triple=x cores=2";
  records[2].target = "llvm -keys=cpu";
  ASSERT_TRUE(database->append(records).ok());
  EXPECT_EQ(*database->targets(),
            (std::vector<std::string>{"host triple=x cores=1", "host triple=x cores=2"}));
}

TEST_P(StoreTest, VisitStopsWhenTold) {
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->append({sample_record(1), sample_record(2), sample_record(3)}).ok());
  int seen = 0;
  ASSERT_TRUE(database->visit({}, [&](const Record&) { return ++seen < 2; }).ok());
  EXPECT_EQ(seen, 2);
}

TEST_P(StoreTest, ReadOnlyRefusesToWrite) {
  { ASSERT_TRUE(Database::open(place("a"))->append({sample_record(1)}).ok()); }
  Result<Database> database = Database::open_read_only(place("a"));
  ASSERT_TRUE(database.ok());
  const Result<void> result = database->append({sample_record(2)});
  ASSERT_FALSE(result.ok());
  EXPECT_NE(result.error().message.find("read-only"), std::string::npos) << result.error().message;
  EXPECT_EQ(*database->count({}), 1);
}

TEST_P(StoreTest, NewerTablesAreRefusedWithWhatToDo) {
  { ASSERT_TRUE(Database::open(place("a")).ok()); }
  run_sql("UPDATE schema_version SET version = 99");
  for (const Result<Database>& newer :
       {Database::open(place("a")), Database::open_read_only(place("a"))}) {
    ASSERT_FALSE(newer.ok());
    EXPECT_EQ(newer.error().code, ErrorCode::kUnsupported);
    EXPECT_NE(newer.error().message.find("version 99"), std::string::npos);
    EXPECT_NE(newer.error().message.find("update Tessera"), std::string::npos);
  }
}

TEST_P(StoreTest, SummariesOfSessionsStandBesideThem) {
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->begin_session({.model = "one"}).ok());
  EXPECT_TRUE(session_summaries(place("a"))->empty());
  ASSERT_TRUE(keep_session_summary(place("a"), 1, "first").ok());
  ASSERT_TRUE(keep_session_summary(place("a"), 1, "{\"trials\": \"'; --\"}").ok());
  EXPECT_EQ(session_summaries(place("a"))->at(1), "{\"trials\": \"'; --\"}");
  EXPECT_FALSE(keep_session_summary(place("a"), 7, "x").ok());
}

TEST_P(StoreTest, RowsOfOlderProgramsAreChangedTogether) {
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->add_tasks({{.key = "old"}, {.key = "new"}}).ok());
  std::vector<Record> records;
  for (int n = 1; n <= 1100; ++n) records.push_back(sample_record(n % 7 + 1, "old"));
  ASSERT_TRUE(database->append(records).ok());
  EXPECT_FALSE(*database->is_outdated());
  const auto updated = database->update(
      [](const TaskRow& row) {
        TaskRow out = row;
        out.key = "new";
        return out;
      },
      [](Record* r) { r->task = "new"; });
  ASSERT_TRUE(updated.ok()) << updated.error().message;
  EXPECT_EQ(*updated, 1100);
  EXPECT_EQ(database->tasks()->size(), 1u);
  EXPECT_EQ(*database->count({.task = "new"}), 1100);
}

// Two writers with the same new texts, each in an order of its own.
TEST_P(StoreTest, WritersWaitForEachOther) {
  { ASSERT_TRUE(Database::open(place("a")).ok()); }
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Result<Database> database = Database::open(place("a"));
      for (int n = 0; n < 10; ++n) {
        std::vector<Record> batch;
        for (int i = 0; i < 8; ++i)
          batch.push_back(sample_record(t % 2 == 0 ? 8 * n + i : 8 * n + 7 - i));
        if (!database.ok() || !database->append(batch).ok()) ++failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(*Database::open_read_only(place("a"))->count({}), 4 * 10 * 8);
}

}  // namespace
}  // namespace tessera::record
