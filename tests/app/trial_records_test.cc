#include "tessera/app/tune/trial_records.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/trials/record/database.h"

namespace tessera::app {
namespace {

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

}  // namespace
}  // namespace tessera::app
