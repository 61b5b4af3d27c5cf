#include "tessera/app/report/collect.h"

#include <gtest/gtest.h>

#include "tessera/app/report/page.h"
#include "tests/record/temp_folder.h"
#include "tests/report/sample_session.h"

namespace tessera::report {
namespace {

class CollectTest : public record::TempFolder {
 protected:
  Result<Report> collected(const std::string& file, std::int64_t session = 0) {
    TESSERA_TRY(const record::Database database, record::Database::open_read_only(path(file)));
    return collect(database, path(file), session);
  }
};

TEST_F(CollectTest, SumsKernelsByTheirUses) {
  ASSERT_TRUE(fill_database(path("a.db"), true).ok());
  const Result<Report> r = collected("a.db");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_TRUE(r->has_summary);
  EXPECT_EQ(r->trials, 7);
  ASSERT_EQ(r->kernels.size(), 2u);
  const Kernel& conv = r->kernels[0];  // most time first
  EXPECT_EQ(conv.label, fmt::format("/conv1{} and 2 more", kEvil));
  EXPECT_EQ(conv.what, "direct conv+add f32[1, 128] over 64");
  EXPECT_EQ(conv.dtype, "f32");
  EXPECT_EQ(conv.trials, 5);
  EXPECT_EQ(conv.timed, 4);
  EXPECT_EQ(conv.before->trial, 1);
  EXPECT_EQ(conv.after->trial, 6);
  EXPECT_DOUBLE_EQ(conv.total_after_s(), 3 * 2.1e-3);
  EXPECT_DOUBLE_EQ(r->before_s(), 3 * 4.1e-3 + 1e-3);
  EXPECT_EQ(r->kernels[1].after->trial, 2) << "the default won";
  // From the moment when both kernels had a time; the last point is the end.
  ASSERT_EQ(r->total.size(), 4u);
  EXPECT_EQ(r->total[0].trial, 2);
  EXPECT_DOUBLE_EQ(r->total[0].seconds, 3 * 4e-3 + 1e-3);
  EXPECT_EQ(r->total[1].time_s, 30);
  EXPECT_DOUBLE_EQ(r->total[2].seconds, 3 * 2e-3 + 1e-3);
  EXPECT_EQ(r->total[3].trial, 7);
  EXPECT_EQ(r->total[3].time_s, 70);
  ASSERT_EQ(r->failures.size(), 1u);
  EXPECT_EQ(r->failures[0].count, 2);
  EXPECT_EQ(r->failures[0].tasks, 2u);
  EXPECT_EQ(r->noise.timed, 5);
  EXPECT_EQ(r->noise.quiet, 2);
  EXPECT_GT(r->noise.spread, 0);
}

TEST_F(CollectTest, WithoutASummaryEveryKernelCountsOnce) {
  ASSERT_TRUE(fill_database(path("a.db"), false).ok());
  const Result<Report> r = collected("a.db", 1);
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_FALSE(r->has_summary);
  EXPECT_DOUBLE_EQ(r->before_s(), 4e-3 + 1e-3);
  EXPECT_DOUBLE_EQ(r->after_s(), 2e-3 + 1e-3);
}

// A database of records of kernels in place and of whole models has a page, too.
TEST_F(CollectTest, CountsEverySubject) {
  {
    Result<record::Database> database = record::Database::open(path("a.db"));
    ASSERT_TRUE(database.ok());
    ASSERT_TRUE(database->begin_session({}).ok());
    ASSERT_TRUE(database->add_tasks({{"aa", "conv", "", 8e6, 1e5}}).ok());
    std::vector<record::Record> records = {
        trial("aa", 1, 4e-3, "default"), trial("aa", 2, 2e-3, "random"),
        trial("mm", 3, 9e-3, "cut"), trial("mm", 4, 8e-3, "cut"), failure("mm", 5)};
    for (record::Record& r : records)
      r.subject = r.task == "aa" ? record::Subject::kInPlace : record::Subject::kModel;
    for (std::size_t i = 2; i < 4; ++i) {
      records[i].default_s = 10e-3;
      records[i].candidate = "layout Conv a = first\n";
    }
    ASSERT_TRUE(database->append(records).ok());
  }
  const Result<Report> r = collected("a.db");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->trials, 5);
  ASSERT_EQ(r->kernels.size(), 1u);
  EXPECT_TRUE(r->kernels[0].in_place);
  EXPECT_EQ(r->kernels[0].label, "conv aa (in place)");
  EXPECT_DOUBLE_EQ(r->before_s(), 4e-3);
  EXPECT_DOUBLE_EQ(r->after_s(), 2e-3);
  ASSERT_EQ(r->plans.size(), 2u);
  EXPECT_EQ(r->plans[0].seconds, 8e-3) << "the fastest comes first";
  EXPECT_EQ(r->failures.size(), 1u);
  const std::string page = to_html(*r, std::nullopt);
  EXPECT_NE(page.find("Plans of the whole model"), std::string::npos);
  EXPECT_NE(page.find("layout Conv a"), std::string::npos);
}

// Times of different subjects are not compared with each other.
TEST_F(CollectTest, KernelsInPlaceStandApartFromThoseAlone) {
  ASSERT_TRUE(fill_database(path("a.db"), true).ok());
  {
    Result<record::Database> database = record::Database::open(path("a.db"));
    record::Record there = trial("aa", 8, 1e-3, "random");
    there.subject = record::Subject::kInPlace;
    ASSERT_TRUE(database->append({there}).ok());
  }
  const Result<Report> r = collected("a.db");
  ASSERT_TRUE(r.ok()) << r.error().message;
  EXPECT_EQ(r->trials, 8);
  EXPECT_EQ(r->kernels.size(), 3u);
  EXPECT_DOUBLE_EQ(r->after_s(), 3 * 2.1e-3 + 1e-3);
}

TEST_F(CollectTest, SaysWhatIsMissing) {
  ASSERT_TRUE(fill_database(path("a.db"), true).ok());
  const Result<Report> unknown = collected("a.db", 9);
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.error().message.find("has no session 9"), std::string::npos);
  {
    Result<record::Database> empty = record::Database::open(path("b.db"));
    ASSERT_TRUE(empty->begin_session({}).ok());
  }
  EXPECT_NE(collected("b.db").error().message.find("no session with records"), std::string::npos);
  EXPECT_NE(collected("b.db", 1).error().message.find("session 1 has no records"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::report
