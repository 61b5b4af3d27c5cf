// Records on their way from one database to another, and out of one, on either engine.
#include <algorithm>
#include <fstream>
#include <set>

#include <gtest/gtest.h>

#include "tessera/trials/record/json_lines.h"
#include "tessera/trials/record/session_summary.h"
#include "tests/record/both_engines.h"
#include "tests/record/sample_records.h"

namespace tessera::record {
namespace {

std::string export_of(const std::string& place) {
  const Result<Database> database = Database::open_read_only(place);
  EXPECT_TRUE(database.ok()) << database.error().message;
  std::string out;
  EXPECT_TRUE(export_lines(*database, LogFormat::kTessera, [&](const std::string& line) {
                out += line + "\n";
                return Result<void>();
              }).ok());
  return out;
}

// Two sessions with a gap in their ids and in those of the records, a task, bytes that are no text.
void fill(const std::string& place, std::uint64_t seed = 1, int records = 40) {
  Result<Database> database = Database::open(place);
  ASSERT_TRUE(database.ok()) << database.error().message;
  for (const char* model : {"one", "gone", "two"}) {
    SessionRow session{.model = model, .target = "t", .options = "--budget 1m", .version = "1"};
    session.seed = seed;
    session.started = 5;
    session.state = "done";
    ASSERT_TRUE(database->begin_session(session).ok());
  }
  ASSERT_TRUE(database->add_tasks({{"b", "conv", "text\n", 2e9, 3}, {"a", "", "", 0, 0}}).ok());
  std::vector<Record> list;
  for (int n = 1; n <= records; ++n) {
    Record r = sample_record(n, n % 2 == 0 ? "a" : "b");
    r.session = n <= 10 ? 2 : n % 2 == 0 ? 1 : 3;
    r.seed = seed;
    r.seconds = 1.0 / n;
    r.candidate += std::string("\0\xff\x1a", 3);
    list.push_back(r);
  }
  ASSERT_TRUE(database->append(list).ok());
  ASSERT_TRUE(database->prune({.session = 2}, false).ok());
  ASSERT_TRUE(keep_session_summary(place, 3, "{\"told\":1}").ok());
}

class MoveTest : public BothEngines {};

INSTANTIATE_TEST_SUITE_P(Engines, MoveTest,
                         ::testing::Values(EngineKind::kSqlite, EngineKind::kPostgres),
                         engine_name);

TEST_P(MoveTest, ThereAndBackIsTheSameByteForByte) {
  fill(path("first.db"));
  const auto copy = [](const std::string& from, const std::string& to) {
    const Result<Database> source = Database::open_read_only(from);
    Result<Database> copied = Database::open(to);
    const Result<std::int64_t> records = copied->copy_from(*source);
    ASSERT_TRUE(records.ok()) << records.error().message;
    EXPECT_EQ(*records, 30);
  };
  copy(path("first.db"), place("middle"));
  copy(place("middle"), path("last.db"));
  const std::string text = export_of(path("first.db"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 2 + 30);
  EXPECT_EQ(export_of(place("middle")), text);
  EXPECT_EQ(export_of(path("last.db")), text);
  EXPECT_EQ(session_summaries(path("last.db"))->at(3), "{\"told\":1}");
  // New rows come behind the copied ones.
  Result<Database> middle = Database::open(place("middle"));
  EXPECT_EQ(*middle->begin_session({.model = "next"}), 4);
  ASSERT_TRUE(middle->append({sample_record(1)}).ok());
  EXPECT_EQ(all_records(*middle).back().id, 41);
}

TEST_P(MoveTest, ACopyGoesOnlyToWhatIsEmpty) {
  fill(place("a"));
  Result<Database> to = Database::open(path("to.db"));
  ASSERT_TRUE(to->add_tasks({{.key = "mine"}}).ok());
  const Result<std::int64_t> copied = to->copy_from(*Database::open_read_only(place("a")));
  ASSERT_FALSE(copied.ok());
  EXPECT_EQ(copied.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(copied.error().message.find("is not empty"), std::string::npos);
  EXPECT_EQ(to->tasks()->size(), 1u);
  EXPECT_EQ(*to->count({.subject = std::nullopt}), 0);
}

TEST_P(MoveTest, AMergeAddsWhatIsNewOnce) {
  fill(path("other.db"));
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->begin_session({.model = "mine", .state = "done"}).ok());
  for (const std::int64_t added : {30, 0}) {
    const Result<Imported> done = import_file(*database, path("other.db"));
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(done->records, added);
    EXPECT_EQ(done->skipped, 30 - added);
  }
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 30);
  EXPECT_EQ(database->sessions()->size(), 3u);
  EXPECT_EQ(session_summaries(place("a"))->size(), 1u);
  // The session went on elsewhere.
  Result<Database> other = Database::open(path("other.db"));
  Record more = sample_record(50);
  more.session = 3;
  ASSERT_TRUE(other->append({more}).ok());
  EXPECT_EQ(import_file(*database, path("other.db"))->records, 1);
}

TEST_P(MoveTest, AMergeGivesTheSameBytesWhateverItGoesThrough) {
  fill(path("a.db"));
  fill(path("b.db"), 2);
  const auto merge = [](const std::string& from, const std::string& to) {
    Result<Database> database = Database::open(to);
    const Result<Imported> done = import_file(*database, from);
    EXPECT_TRUE(done.ok()) << done.error().message;
  };
  for (const char* from : {"a.db", "b.db"}) merge(path(from), path("files.db"));
  const std::string text = export_of(path("files.db"));
  EXPECT_EQ(std::ranges::count(text, '\n'), 2 + 4 + 60);
  for (const char* from : {"a.db", "b.db", "a.db"}) merge(path(from), place("direct"));
  EXPECT_EQ(export_of(place("direct")), text);
  merge(path("a.db"), place("detour"));
  merge(path("b.db"), place("other"));
  merge(place("other"), place("detour"));
  merge(place("detour"), path("last.db"));
  EXPECT_EQ(export_of(place("detour")), text);
  EXPECT_EQ(export_of(path("last.db")), text);
}

TEST_P(MoveTest, WhatIsLeftAfterAPruneIsNotDoubled) {
  fill(path("other.db"));
  Result<Database> database = Database::open(place("a"));
  ASSERT_EQ(import_file(*database, path("other.db"))->records, 30);
  std::vector<std::int64_t> times;
  for (const Record& r : all_records(*database, {.subject = std::nullopt}))
    times.push_back(r.unix_time);
  std::ranges::sort(times);
  const std::int64_t removed = database->prune({.before = times[10]}, false)->records;
  ASSERT_GT(removed, 0);
  ASSERT_LT(removed, 30);
  EXPECT_EQ(import_file(*database, path("other.db"))->records, removed);
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 30);
  EXPECT_EQ(import_file(*database, path("other.db"))->records, 0);
}

TEST_P(MoveTest, RecordsOfNoSessionAreMergedOnce) {
  const auto of_none = [](int n) {
    Record r = sample_record(n);
    r.session = 0;
    return r;
  };
  {
    Result<Database> other = Database::open(path("other.db"));
    ASSERT_TRUE(other->append({of_none(1), of_none(2), of_none(2)}).ok());
  }
  Result<Database> database = Database::open(place("a"));
  ASSERT_TRUE(database->append({of_none(1)}).ok());
  EXPECT_EQ(import_file(*database, path("other.db"))->records, 2);
  EXPECT_EQ(import_file(*database, path("other.db"))->records, 0);
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 3);
}

TEST_P(MoveTest, SessionsThatBeganAlikeAreNotTakenForOne) {
  fill(path("a.db"));
  fill(path("b.db"));
  {
    // What another machine measured in a session of the same second.
    Result<Database> b = Database::open(path("c.db"));
    SessionRow session{.model = "one", .target = "t", .options = "--budget 1m", .version = "1"};
    session.seed = 1;
    session.started = 5;
    session.state = "done";
    ASSERT_TRUE(b->begin_session(session).ok());
    Record r = sample_record(12, "a");
    r.seed = 1;
    r.samples_s = {0.5};
    ASSERT_TRUE(b->append({r, r}).ok());
  }
  Result<Database> database = Database::open(place("all"));
  EXPECT_EQ(import_file(*database, path("a.db"))->records, 30);
  EXPECT_EQ(import_file(*database, path("b.db"))->records, 0) << "the same records";
  EXPECT_EQ(import_file(*database, path("c.db"))->records, 2);
  EXPECT_EQ(import_file(*database, path("c.db"))->records, 0);
  EXPECT_EQ(database->sessions()->size(), 3u);
}

TEST_P(MoveTest, ADatabaseIsNotMergedIntoItself) {
  fill(place("a"));
  Result<Database> database = Database::open(place("a"));
  const Result<Imported> done = import_file(*database, place("a"));
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 30);
}

TEST_P(MoveTest, PruneRemovesWhatFitsAll) {
  fill(place("a"));
  Result<Database> database = Database::open(place("a"));
  Record other = sample_record(1);
  other.session = 1;
  other.target = "neoverse-v10 threads=2";
  other.unix_time = 100;
  ASSERT_TRUE(database->append({other}).ok());
  const auto pruned = [&](const PruneFilter& filter, bool only_count) {
    const Result<Pruned> done = database->prune(filter, only_count);
    EXPECT_TRUE(done.ok()) << done.error().message;
    return std::pair(done->records, done->sessions);
  };
  using Counts = std::pair<std::int64_t, std::int64_t>;
  EXPECT_EQ(pruned({.before = 100}, false), Counts(0, 0));
  EXPECT_EQ(pruned({.before = 101}, true), Counts(1, 0));
  EXPECT_EQ(pruned({.before = 101, .session = 3}, true), Counts(0, 0));
  EXPECT_EQ(pruned({.machine = "neoverse-v1"}, true), Counts(30, 1));
  EXPECT_EQ(pruned({.machine = "neoverse-v10"}, true), Counts(1, 0));
  EXPECT_EQ(pruned({.machine = "neoverse-%"}, true), Counts(0, 0));
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 31) << "only counted so far";
  EXPECT_EQ(pruned({.session = 3}, false), Counts(15, 1));
  EXPECT_TRUE(session_summaries(place("a"))->empty());
  EXPECT_EQ(pruned({.before = 101}, false), Counts(1, 0));
  EXPECT_EQ(*database->count({.subject = std::nullopt}), 15);
  EXPECT_EQ(database->sessions()->size(), 1u);
}

TEST_P(MoveTest, PruneLeavesWhatIsBeingWritten) {
  Result<Database> database = Database::open(place("a"));
  Record r = sample_record(1);
  r.session = *database->begin_session({.model = "now"});
  ASSERT_TRUE(database->append({r}).ok());
  EXPECT_EQ(database->prune({.session = 1}, false)->records, 0);
  ASSERT_TRUE(database->end_session(1, "done").ok());
  EXPECT_EQ(database->prune({.session = 1}, false)->records, 1);
  EXPECT_TRUE(database->sessions()->empty());
}

TEST_P(MoveTest, ImportsNameWhatIsNotThere) {
  EXPECT_EQ(check_importable(path("none")).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(check_importable(path("")).error().code, ErrorCode::kIo);
  std::ofstream(path("text")) << "{}";
  EXPECT_FALSE(is_database(path("text")));
  fill(place("a"), 1, 12);
  EXPECT_TRUE(is_database(place("a")));
}

}  // namespace
}  // namespace tessera::record
