#include "tessera/trials/record/explain.h"

#include <gtest/gtest.h>

#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

using Decisions = std::map<std::string, std::string>;

Record with(const std::string& format, const std::string& candidate) {
  Record r;
  r.format = format;
  r.candidate = candidate;
  return r;
}

TEST(Decisions, OfEveryFormat) {
  EXPECT_EQ(
      decisions_of(with("tessera", "reasoned: C.rows=8 C.tile=4x2 order=outer")),
      (Decisions{{"sketch", "reasoned"}, {"C.rows", "8"}, {"C.tile", "4x2"}, {"order", "outer"}}));
  EXPECT_EQ(
      decisions_of(with("ansor", R"([["SP",2,0,64,[4,8],1],["PR",2,0,"u$16"],["CA",1,2,3]])")),
      (Decisions{{"split.2.0", "4x8"}, {"pragma.2", "u$16"}, {"compute_at.1", "2.3"}}));
  EXPECT_EQ(decisions_of(with("autotvm", R"({"index":1,"entity":[["t","sp",[-1,4]],)"
                                         R"(["a","an",["vec","none"]],["o","ot",true]]})")),
            (Decisions{{"t", "-1x4"}, {"a", "vec,none"}, {"o", "true"}}));
  EXPECT_TRUE(decisions_of(with("tessera", "no colon")).empty());
  EXPECT_TRUE(decisions_of(with("ansor", "{")).empty());
}

class ExplainTest : public TempFolder {};

Record timed(const std::string& candidate, double seconds) {
  Record r = sample_record(1);
  r.candidate = candidate;
  r.seconds = seconds;
  return r;
}

TEST_F(ExplainTest, EffectsAreRatiosOfMedians) {
  Result<Database> database = Database::open(path("a.db"));
  Record slow = timed("s: a=2 b=1 c=7", 8);
  slow.outcome = "censored";
  ASSERT_TRUE(
      database
          ->append({timed("s: a=1 b=1 c=7", 1), timed("s: a=1 b=2 c=7", 2),
                    timed("s: a=2 b=2 c=7", 6), slow, failed_record(1, "run_error", "x"),
                    failed_record(2, "run_error", "x"), failed_record(3, "run_timeout", "")})
          .ok());
  const Result<Explanation> e = explain(*database, {.task = sample_record(1).task}, 2);
  ASSERT_TRUE(e.ok()) << e.error().message;
  EXPECT_EQ(e->records, 7);
  EXPECT_EQ(e->timed, 4);
  EXPECT_EQ(e->median_s, 4);
  ASSERT_EQ(e->best.size(), 2u);
  EXPECT_EQ(e->best[0].seconds, 1);
  ASSERT_EQ(e->decisions.size(), 2u) << "c and the sketch never differ";
  EXPECT_EQ(e->decisions[0].name, "a");
  EXPECT_EQ(e->decisions[0].best_value, "1");
  EXPECT_DOUBLE_EQ(e->decisions[0].effect, 7 / 1.5);
  EXPECT_EQ(e->decisions[1].name, "b");
  EXPECT_DOUBLE_EQ(e->decisions[1].effect, 4 / 4.5);
  EXPECT_EQ(e->failures,
            (std::map<std::string, std::int64_t>{{"run_error", 2}, {"run_timeout", 1}}));
  EXPECT_EQ(e->reasons,
            (std::map<std::string, std::int64_t>{{"run_error: x", 2}, {"run_timeout", 1}}));
}

TEST_F(ExplainTest, NothingMeasuredIsNothingToExplain) {
  Result<Database> database = Database::open(path("a.db"));
  ASSERT_TRUE(database->append({failed_record(1, "build_error", "x")}).ok());
  const Result<Explanation> e = explain(*database, {}, 3);
  ASSERT_TRUE(e.ok()) << e.error().message;
  EXPECT_EQ(e->records, 1);
  EXPECT_TRUE(e->best.empty());
  EXPECT_TRUE(e->decisions.empty());
}

TEST_F(ExplainTest, CompareTakesTheUnionOfTasks) {
  Result<Database> a = Database::open(path("a.db")), b = Database::open(path("b.db"));
  ASSERT_TRUE(
      a->append({sample_record(1, "x"), sample_record(2, "x"), sample_record(1, "y")}).ok());
  ASSERT_TRUE(b->append({sample_record(4, "x"), sample_record(3, "z")}).ok());
  const Result<std::vector<TaskDifference>> list = compare(*a, *b, {});
  ASSERT_TRUE(list.ok()) << list.error().message;
  ASSERT_EQ(list->size(), 3u);
  EXPECT_DOUBLE_EQ((*list)[0].b_s / (*list)[0].a_s, 4);
  EXPECT_EQ((*list)[1].b_s, 0);
  EXPECT_EQ((*list)[2].task, "z");
  EXPECT_EQ((*list)[2].a_s, 0);
}

}  // namespace
}  // namespace tessera::record
