// What older programs wrote, brought up to date.
#include "tessera/app/tune/record_update.h"

#include <gtest/gtest.h>

#include "tessera/frontend/task/task.h"
#include "tessera/support/hash.h"
#include "tests/dataset/dataset_case.h"

namespace tessera::app {
namespace {

// Rows and columns named as a graph of then did: the residual first.
constexpr const char* kOld =
    "dag contract+add\n  input p0: f32[32, 64]\n  input p1: f32[16, 32]\n"
    "  constant p2: f32[32, 64]\n  stage contract: f32[16, 64]\n"
    "    contract[i, j] = sum(k in 32) p1[i, k] * p2[k, j]\n  stage add: f32[16, 64]\n"
    "    add[i0, i1] = p0[i0, i1] + contract[i0, i1]\n  output add\n";

class Update : public ::testing::Test {
 protected:
  Update()
      : old_(te::dag_from_text(kOld).value()),
        target_(target::find_target("neoverse-v1").value()),
        space_(space::make_space(old_, target_).value()) {
    row_ = {"oldkey", "contract+add", kOld, 1, 2};
  }

  record::Record record(const decide::Candidate& c, bool with_digest) const {
    record::Record r;
    r.task = "oldkey";
    r.target = target::to_text(target_);
    r.candidate = space_.to_text(c);
    const std::string steps = schedule::to_text(space_.schedule(c).value());
    if (with_digest) r.schedule_digest = to_hex(hash_bytes(steps));
    return r;
  }

  te::Dag old_;
  target::Target target_;
  space::Space space_;
  record::TaskRow row_;
};

TEST_F(Update, TasksBecomeCanonical) {
  RecordUpdate update;
  const record::TaskRow now = update.task(row_);
  const te::Dag dag = te::dag_from_text(now.definition).value();
  EXPECT_EQ(now.key, task::key_of(old_));
  EXPECT_EQ(now.key, task::key_of(dag));
  EXPECT_NE(now.definition.find("add[i0, i1] = contract[i0, i1] + p2[i0, i1]"), std::string::npos)
      << now.definition;
  EXPECT_EQ(update.task(now), now);
  const record::TaskRow unreadable{"k", "n", "no definition", 1, 2};
  EXPECT_EQ(update.task(unreadable), unreadable);
}

TEST_F(Update, RecordsGetTheStepsOfTheirCandidates) {
  RecordUpdate update;
  const te::Dag dag = te::dag_from_text(update.task(row_).definition).value();
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    record::Record r = record(space_.sample(rng), i % 2 == 0);
    update.record(&r);
    EXPECT_EQ(r.task, task::key_of(old_));
    ASSERT_FALSE(r.schedule.empty()) << r.candidate;
    EXPECT_EQ(r.schedule_digest, to_hex(hash_bytes(r.schedule)));
    const auto state = schedule::apply(dag, schedule::schedule_from_text(r.schedule).value());
    EXPECT_TRUE(state.ok()) << r.schedule;
  }
}

TEST_F(Update, StepsThatDidNotRunAreNotMadeUp) {
  RecordUpdate update;
  update.task(row_);
  record::Record r = record(space_.preferred(), true);
  r.schedule_digest = "0123456789abcdef";  // another version of the space wrote other steps
  update.record(&r);
  EXPECT_EQ(r.schedule, "");
  r = record(space_.preferred(), false);
  const std::size_t first = r.candidate.find(' ');
  r.candidate.erase(first, r.candidate.find(' ', first + 1) - first);  // did not exist then
  update.record(&r);
  EXPECT_EQ(r.schedule, "");
}

TEST_F(Update, DatabasesAreMendedOnce) {
  const std::string path = dataset::test_folder("a.db");
  Result<record::Database> database = record::Database::open(path);
  ASSERT_TRUE(database.ok());
  ASSERT_TRUE(database->add_tasks({row_}).ok());
  ASSERT_TRUE(database->append({record(space_.preferred(), true)}).ok());
  EXPECT_EQ(bring_up_to_date(*database).value(), 1);
  EXPECT_EQ(bring_up_to_date(*database).value(), 0);
  EXPECT_EQ(database->tasks()->at(0).key, task::key_of(old_));
  EXPECT_EQ(*database->count({.task = task::key_of(old_)}), 1);
}

TEST_F(Update, DatasetsLeaveOutWhatHasNoSteps) {
  dataset::Dataset d = dataset::small_dataset(12);
  for (dataset::Example& e : d.examples) e.schedule.clear();
  d.examples[5].candidate = "gone: x=1";
  // The same task once more, written differently.
  d.tasks.push_back({"oldkey", "contract+add", "tessera", kOld, 1, 2});
  d.tasks.push_back(
      {"newkey", "contract+add", "tessera", te::to_text(te::canonicalize(old_).dag), 1, 2});
  d.networks.push_back({"net", {{"oldkey", 2}, {"newkey", 3}, {"absent", 1}}});
  const UpdatedDataset now = bring_up_to_date(d);
  EXPECT_EQ(now.records, d.examples.size());
  EXPECT_EQ(now.without_steps, 1u);
  EXPECT_EQ(now.dataset.examples.size(), d.examples.size() - 1);
  EXPECT_EQ(now.merged, 1u);
  EXPECT_EQ(now.dataset.networks.back().weights.at(task::key_of(old_)), 5);
  for (const dataset::Example& e : now.dataset.examples) EXPECT_FALSE(e.schedule.empty());
}

}  // namespace
}  // namespace tessera::app
