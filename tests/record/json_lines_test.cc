#include "tessera/trials/record/json_lines.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

class JsonLines : public TempFolder {
 protected:
  void fill(const std::string& file) {
    Result<Database> database = Database::open(file);
    ASSERT_TRUE(database.ok()) << database.error().message;
    SessionRow session{.model = "zoo:mlp", .target = "t", .options = "--seed 3", .version = "1"};
    session.seed = ~0ull;
    session.started = 12;
    ASSERT_TRUE(database->begin_session(session).ok());
    session.started = 13;
    ASSERT_TRUE(database->begin_session(session).ok());
    ASSERT_TRUE(database->end_session(1, "done").ok());
    ASSERT_TRUE(
        database->add_tasks({{.key = "k", .name = "n", .definition = "a\nb", .flops = 0.1}}).ok());
    Record first = sample_record(1), failed = failed_record(2, "run_error", "signal \"11\"\t\n");
    failed.session = 2;
    failed.subject = Subject::kInPlace;
    failed.model = "0123456789abcdef";
    Record foreign = sample_record(3);
    foreign.subject = Subject::kModel;
    foreign.session = 0;
    foreign.extra = "{}";
    ASSERT_TRUE(database->append({first, failed, foreign}).ok());
  }

  std::vector<std::string> lines(const std::string& file) {
    std::vector<std::string> out;
    const Result<Database> database = Database::open_read_only(file);
    const Result<std::int64_t> count =
        export_lines(*database, LogFormat::kTessera, [&](const std::string& line) -> Result<void> {
          out.push_back(line);
          return {};
        });
    EXPECT_TRUE(count.ok());
    EXPECT_EQ(static_cast<std::size_t>(*count) + 3, out.size());
    return out;
  }

  void write(const std::string& file, const std::vector<std::string>& text) {
    std::ofstream out(file);
    for (const std::string& line : text) out << line << "\n";
  }
};

TEST_F(JsonLines, RoundTripIsExact) {
  fill(path("a.db"));
  const std::vector<std::string> exported = lines(path("a.db"));
  write(path("a.jsonl"), exported);
  {
    Result<Database> copy = Database::open(path("b.db"));
    const Result<Imported> done = import_file(*copy, path("a.jsonl"));
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(done->records, 3);
    EXPECT_EQ(done->good, 2);
    EXPECT_EQ(done->tasks, 1);
  }
  EXPECT_EQ(lines(path("b.db")), exported);
}

TEST_F(JsonLines, RowsKeepTheirNumbers) {
  Record r = sample_record(1);
  r.samples_s = {0.1, 1e-300, 12345678.912345678, 1e10, 5e-324};
  r.seconds = 1.0 / 3;
  const Result<Row> row = row_from_json_line(to_json_line(r));
  ASSERT_TRUE(row.ok()) << row.error().message;
  EXPECT_EQ(std::get<Record>(*row), r);
}

// What older programs kept as JSON in `extra`.
TEST_F(JsonLines, MarksOfOlderExportsAreRead) {
  Record r = sample_record(1);
  r.extra = R"({"cold_caches":true,"evicted_bytes":7,"unchecked":true,"memory_s":0.5})";
  r.cold = r.unchecked = false;
  const Record read = std::get<Record>(row_from_json_line(to_json_line(r)).value());
  EXPECT_TRUE(read.cold);
  EXPECT_TRUE(read.unchecked);
  EXPECT_EQ(read.evicted_bytes, 7);
  EXPECT_EQ(read.memory_s, 0.5);
  EXPECT_EQ(read.extra, "");
  for (const char* other : {"{", "[1]", R"({"evicted_bytes":"many"})", R"({"v":1})"}) {
    r.extra = other;
    EXPECT_EQ(std::get<Record>(row_from_json_line(to_json_line(r)).value()), r);
  }
}

TEST_F(JsonLines, ImportingAgainAddsNothing) {
  fill(path("a.db"));
  write(path("a.jsonl"), lines(path("a.db")));
  Result<Database> copy = Database::open(path("b.db"));
  ASSERT_TRUE(import_file(*copy, path("a.jsonl")).ok());
  const Result<Imported> again = import_file(*copy, path("a.jsonl"));
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(again->records, 1) << "a record without a session cannot be known again";
  EXPECT_EQ(again->skipped, 2);
  EXPECT_EQ(copy->sessions()->size(), 2u);
}

TEST_F(JsonLines, AStoppedImportGoesOn) {
  const std::string line = R"({"i": [["k", "t"], [[], []]], "r": [[1], 0, 1, 1], "v": "v0.6"})";
  write(path("whole"), {line, line, line});
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(import_file(*database, path("whole")).ok());
  // As if it had been killed after the first batch: the session is there, two records are not.
  Result<Database> partial = Database::open(path("b.db"));
  SessionRow session = database->sessions()->at(0);
  ASSERT_TRUE(partial->begin_session(session).ok());
  Record first = database->find(1)->value();
  ASSERT_TRUE(partial->append({first}).ok());
  const Result<Imported> rest = import_file(*partial, path("whole"));
  ASSERT_TRUE(rest.ok()) << rest.error().message;
  EXPECT_EQ(rest->skipped, 1);
  EXPECT_EQ(rest->records, 2);
  EXPECT_EQ(*partial->count({}), 3);
}

TEST_F(JsonLines, BadLinesAreNamed) {
  const std::pair<std::string, std::string> cases[] = {
      {R"({"kind": "record", "threads": "2"})", "\"threads\" cannot be \"2\""},
      {R"({"kind": "record", "seed": -1})", "\"seed\" cannot be -1"},
      {R"({"kind": "record", "samples_s": [1, null]})", "\"samples_s\" cannot be"},
      {R"({"kind": "record", "subject": "bird"})", "\"subject\" cannot be \"bird\""},
      {R"({"kind": "record", "color": 1})", "members that this version does not know"},
      {R"({"kind": "bird"})", "not one of session, task, record"},
      {R"({"kind")", "is not JSON"},
      {"[1]", "is not a record of Tessera, Ansor or AutoTVM"},
  };
  Result<Database> database = Database::open(path("a.db"));
  for (const auto& [line, reason] : cases) {
    write(path("bad"), {line});
    const Result<Imported> done = import_file(*database, path("bad"));
    ASSERT_FALSE(done.ok()) << line;
    EXPECT_NE(done.error().message.find(path("bad") + ":1: "), std::string::npos);
    EXPECT_NE(done.error().message.find(reason), std::string::npos) << done.error().message;
  }
  write(path("bad"), {"# nothing"});
  EXPECT_NE(import_file(*database, path("bad")).error().message.find("has no records"),
            std::string::npos);
  EXPECT_EQ(import_file(*database, path("absent")).error().code, ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace tessera::record
