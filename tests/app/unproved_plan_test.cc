// Beside a plan: what seemed faster and was not kept, as long as that is so.
#include <filesystem>

#include <gtest/gtest.h>

#include "tessera/app/tune/after_tuning.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::app {
namespace {

TEST(UnprovedPlan, GoesWhenALaterTuningProvesItsOwn) {
  const TemporaryFolder folder = TemporaryFolder::make("unproved").value();
  const std::string path = folder.path() + "/net.unproved.plan";
  const auto there = [&] { return std::filesystem::exists(path); };
  TuneResult open;
  open.subjects.push_back({.name = "net", .before_s = 2, .after_s = 2});
  open.unproved.tasks["key"].schedule = "steps\n";
  EXPECT_TRUE(*keep_unproved(open, path));
  EXPECT_TRUE(there());
  TuneResult same = open, interrupted = open, unchecked = open, proved = open;
  for (TuneResult* r : {&same, &interrupted, &unchecked, &proved}) r->unproved.tasks.clear();
  for (TuneResult* r : {&interrupted, &unchecked, &proved}) r->subjects[0].after_s = 1;
  interrupted.state = TuneState::kInterrupted;
  unchecked.subjects[0].checked = false;
  for (const TuneResult& r : {same, interrupted, unchecked}) {
    EXPECT_FALSE(*keep_unproved(r, path));
    EXPECT_TRUE(there());
  }
  EXPECT_FALSE(*keep_unproved(proved, path));
  EXPECT_FALSE(there());
  EXPECT_FALSE(*keep_unproved(proved, path)) << "there is nothing to take away";
}

TEST(UnprovedPlan, ThatCannotBeWrittenIsSaid) {
  TuneResult open;
  open.unproved.tasks["key"].schedule = "steps\n";
  const Result<bool> kept = keep_unproved(open, "/no/such/folder/net.unproved.plan");
  ASSERT_FALSE(kept.ok());
  EXPECT_NE(kept.error().message.find("/no/such/folder"), std::string::npos);
}

}  // namespace
}  // namespace tessera::app
