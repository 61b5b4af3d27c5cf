#include "tessera/app/tune/trial_records.h"

#include <filesystem>
#include <set>

#include <gtest/gtest.h>

#include "tessera/frontend/graph/builder.h"
#include "tessera/support/hash.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/server_grant.h"
#include "tests/testing/postgres_server.h"

namespace tessera::app {
namespace {

TEST(ModelKey, TellsWhatTheModelIsComputedIn) {
  graph::GraphBuilder b("m");
  const graph::ValueId x = b.input("x", {DType::kF32, {2}});
  const graph::Graph graph = b.finish({b.add("exp", {x}).value()}, {"y"});
  CompileOptions f32, bf16, f16, rounded;
  bf16.floats = DType::kBF16;
  f16.floats = DType::kF16;
  rounded.rounding = graph::Rounding::kAlways;
  std::set<std::string> keys;
  for (const CompileOptions& how : {f32, bf16, f16, rounded}) {
    keys.insert(model_key(graph, how));
    keys.insert(placed_key(graph, how, 2));
    EXPECT_EQ(placed_key(graph, how, 0), model_key(graph, how));
  }
  EXPECT_EQ(keys.size(), 8u);
  // Records of f32 are those of earlier versions.
  EXPECT_EQ(model_key(graph, f32), to_hex(hash_bytes(graph::to_text(graph))));
}

TEST(TargetsOfMachine, OtherCoresAndNamesButNoOtherProcessor) {
  const std::string path = ::testing::TempDir() + "/targets_of_machine.db";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(path + end);
  Result<record::Database> database = record::Database::open(path);
  ASSERT_TRUE(database.ok());
  const target::Target here = target::code_target(target::host(), 1);
  EXPECT_EQ(*targets_of_machine(*database, here), std::vector{target::to_text(here)});
  target::Target renamed = target::code_target(here, 2), faster = here, wider = here;
  renamed.name = "row-of-the-table";
  faster.cpu = "another";
  wider.l2_bytes *= 2;
  std::vector<record::Record> records(5);
  records[0].target = target::to_text(here);
  records[1].target = target::to_text(renamed);
  records[2].target = target::to_text(faster);
  records[3].target = target::to_text(wider);
  records[4].target = "damaged triple=x";
  for (record::Record& r : records) r.outcome = "ok";
  ASSERT_TRUE(database->append(records).ok());
  EXPECT_EQ(*targets_of_machine(*database, here),
            (std::vector{target::to_text(here), target::to_text(renamed)}));
  std::filesystem::remove(path);
}

record::Record timed(const std::string& task, std::int64_t trial) {
  record::Record r;
  r.task = task;
  r.trial = trial;
  r.schedule_digest = "0123456789abcdef";
  r.outcome = "ok";
  r.seconds = 1;
  return r;
}

TEST(TrialRecordsOfMachines, WhatOneMeasuredIsRetracted) {
  RecordOptions options;
  options.database = ::testing::TempDir() + "/retracted.db";
  options.target = target::code_target(target::host(), 1);
  options.version = "1 (c0ffee)";
  for (const char* end : {"", "-wal", "-shm"}) std::filesystem::remove(options.database + end);
  TrialRecords records = TrialRecords::open(options, {}).value();
  for (std::int64_t trial = 1; trial <= 6; ++trial) records.add(timed("a", trial), 4 + trial % 2);
  ASSERT_TRUE(records.flush());
  records.add(timed("a", 7), 5);
  records.add(timed("a", 8), 4);
  EXPECT_EQ(records.retract(5), "");
  EXPECT_EQ(records.retract(5), "") << "nothing is left of it";
  ASSERT_TRUE(records.flush());
  ASSERT_TRUE(records.end("done"));
  const auto database = record::Database::open_read_only(options.database);
  std::vector<std::int64_t> left;
  ASSERT_TRUE(database
                  ->visit({},
                          [&](const record::Record& r) {
                            left.push_back(r.trial);
                            return true;
                          })
                  .ok());
  EXPECT_EQ(left, (std::vector<std::int64_t>{2, 4, 6, 8}));
  EXPECT_EQ(database->sessions()->at(0).version, "1 (c0ffee)");
}

TEST(TrialRecordsOfMachines, WhatARoleMayNotRemoveIsSaid) {
  auto* server = tessera::testing::PostgresServer::get();
  if (server == nullptr) GTEST_SKIP() << tessera::testing::PostgresServer::why_absent();
  const std::string url = server->make_database("retracted");
  const std::string database = url.substr(14, url.find('?') - 14);
  ASSERT_TRUE(record::Database::open(url).ok());
  server->sql(database, "CREATE ROLE adds LOGIN");
  ASSERT_NE(server->sql(database, record::grant_sql("adds")), "");
  RecordOptions options;
  options.database = server->url(database, "adds");
  options.target = target::code_target(target::host(), 1);
  TrialRecords records = TrialRecords::open(options, {}).value();
  records.add(timed("a", 1), 5);
  ASSERT_TRUE(records.flush());
  const std::string said = records.retract(5);
  EXPECT_NE(said.find("1 record of them stay"), std::string::npos) << said;
  EXPECT_NE(said.find("tessera db prune --session 1"), std::string::npos) << said;
  EXPECT_EQ(record::Database::open_read_only(url)->count({}).value(), 1);
  server->sql(database, "DROP OWNED BY adds; DROP ROLE adds");
}

}  // namespace
}  // namespace tessera::app
