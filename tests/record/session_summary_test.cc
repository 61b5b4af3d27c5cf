#include "tessera/trials/record/session_summary.h"

#include <gtest/gtest.h>

#include "tessera/trials/record/database.h"
#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

class SessionSummary : public TempFolder {};

using Summaries = std::map<std::int64_t, std::string>;

TEST_F(SessionSummary, IsKeptBesideTheSession) {
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(database->begin_session({.model = "one"}).ok());
  ASSERT_TRUE(database->begin_session({.model = "two"}).ok());
  EXPECT_EQ(*session_summaries(path("a.db")), Summaries());
  // The database may be open meanwhile.
  ASSERT_TRUE(keep_session_summary(path("a.db"), 2, "first").ok());
  ASSERT_TRUE(keep_session_summary(path("a.db"), 2, "{\"trials\": \"'; --\"}").ok());
  EXPECT_EQ(*session_summaries(path("a.db")), (Summaries{{2, "{\"trials\": \"'; --\"}"}}));
  ASSERT_TRUE(database->append({sample_record(1)}).ok());
  EXPECT_TRUE(Database::open_read_only(path("a.db")).ok());
}

TEST_F(SessionSummary, NeedsTheSession) {
  { ASSERT_TRUE(Database::open(path("a.db")).ok()); }
  const Result<void> unknown = keep_session_summary(path("a.db"), 7, "x");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(unknown.error().message.find("no session 7"), std::string::npos);
  EXPECT_FALSE(session_summaries(path("none.db")).ok());
}

}  // namespace
}  // namespace tessera::record
