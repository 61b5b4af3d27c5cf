#include "tessera/trials/fleet/work.h"

#include <gtest/gtest.h>

#include "tessera/trials/fleet/fit.h"
#include "tests/fleet/fleet_case.h"

namespace tessera::fleet {
namespace {

Work some_work() {
  Work work{target::host(), {{"t", small_dag(), true}}, {}};
  work.options.threads = 2;
  work.options.seed = UINT64_MAX;
  work.options.check_results = false;
  return work;
}

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " in " << text;
  return text.replace(at, from.size(), to);
}

TEST(Work, IsReadBack) {
  const Result<Work> work = work_from_text(to_text(some_work()));
  ASSERT_TRUE(work.ok()) << work.error().message;
  EXPECT_EQ(target::to_text(work->target), target::to_text(target::host()));
  ASSERT_EQ(work->tasks.size(), 1u);
  EXPECT_EQ(work->tasks[0].key, "t");
  EXPECT_TRUE(work->tasks[0].cold_caches);
  EXPECT_EQ(te::to_text(work->tasks[0].dag), te::to_text(small_dag()));
  EXPECT_EQ(work->options.threads, 2);
  EXPECT_EQ(work->options.seed, UINT64_MAX);
  EXPECT_FALSE(work->options.check_results);
}

TEST(Work, OfAStrangerIsRefusedWithAReason) {
  const std::string text = to_text(some_work());
  EXPECT_FALSE(work_from_text("").ok());
  EXPECT_FALSE(work_from_text("[1]").ok());
  EXPECT_FALSE(work_from_text(text.substr(0, text.size() / 2)).ok());
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{
           {"\"threads\":2", "\"threads\":-1"},
           {"\"threads\":2", "\"threads\":1e99"},
           {"\"threads\":2", "\"threads\":\"2\""},
           {"\"run_timeout_s\":10", "\"run_timeout_s\":100000"},
           {"\"max_samples\":12", "\"max_samples\":1000000"},
           {"\"cold\":true", "\"cold\":1"},
           {"\"key\":\"t\"", "\"kee\":\"t\""},
           {"\"definition\":\"", "\"definition\":\"import os;"},
           {"\"target\":\"", "\"target\":\"\",\"was\":\""}}) {
    const Result<Work> work = work_from_text(with(text, from, to));
    ASSERT_FALSE(work.ok()) << to;
    EXPECT_FALSE(work.error().message.empty());
  }
  const std::string tasks = text.substr(text.find("[{"), text.find("}]") - text.find("[{") + 1);
  const Result<Work> twice = work_from_text(with(text, tasks, tasks + "," + tasks.substr(1)));
  ASSERT_FALSE(twice.ok());
  EXPECT_EQ(twice.error().message, "two tasks t");
}

TEST(Batch, IsReadBackAndNumbered) {
  Batch batch{trials_of(40, 2)};
  batch.trials[1].steps = schedule::schedule_from_text("split C i 4 tail=peel\n").value();
  batch.trials[1].incumbent_s = 0.25;
  batch.trials[1].final = true;
  const Result<Batch> read = batch_from_text(to_text(batch));
  ASSERT_TRUE(read.ok()) << read.error().message;
  ASSERT_EQ(read->trials.size(), 2u);
  EXPECT_EQ(read->trials[1].id, 1u);
  EXPECT_EQ(schedule::to_text(read->trials[1].steps), schedule::to_text(batch.trials[1].steps));
  EXPECT_EQ(read->trials[1].incumbent_s, 0.25);
  EXPECT_TRUE(read->trials[1].final);
  EXPECT_FALSE(batch_from_text(R"({"trials":[]})").ok());
  EXPECT_FALSE(batch_from_text(R"({"trials":[7]})").ok());
  EXPECT_FALSE(batch_from_text(to_text(Batch{trials_of(0, measure::kMostCompared + 1)})).ok());
}

TEST(BatchResult, IsReadBackAndNonsenseIsNot) {
  BatchResult result;
  result.measurements = {{.outcome = measure::Outcome::kRunError, .reason = "SIGSEGV \xff"},
                         {.samples_s = {1e-3, 0.1 + 0.2}, .calibration_s = 2e-5}};
  result.machine.busy = true;
  const std::string text = to_text(result);
  const Result<BatchResult> read = result_from_text(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->measurements[0].outcome, measure::Outcome::kRunError);
  EXPECT_EQ(read->measurements[1].samples_s, result.measurements[1].samples_s);
  EXPECT_TRUE(read->machine.busy);
  EXPECT_EQ(read->machine.calibration_s, 2e-5);
  EXPECT_FALSE(result_from_text(with(text, "0.001", "0")).ok());
  EXPECT_FALSE(result_from_text(with(text, "run_error", "great")).ok());
  EXPECT_FALSE(result_from_text(with(text, "\"run_error\"", "\"ok\"")).ok()) << "without samples";
  EXPECT_EQ(reason_of_refusal(refusal("too large")), "too large");
  EXPECT_EQ(reason_of_refusal(text), "");
}

TEST(AgentChoice, IsAnyANumberOrALabel) {
  EXPECT_EQ(choice_from_text("any")->most, 0);
  EXPECT_EQ(choice_from_text("12")->most, 12);
  EXPECT_EQ(choice_from_text("label=rack=3")->labels, (Labels{{"rack", "3"}}));
  for (const char* wrong : {"", "0", "-1", "some", "label=", "label=rack", "3 agents"}) {
    EXPECT_FALSE(choice_from_text(wrong).ok()) << wrong;
  }
  EXPECT_EQ(to_text(*labels_from_text("b=2,a=1 c=x=y")), "a=1 b=2 c=x=y");
  EXPECT_FALSE(labels_from_text("=1").ok());
}

TEST(Fit, NamesWhatIsInTheWay) {
  target::Target other = target::host();
  AgentRow agent{.name = "a", .target = target::to_text(other), .threads = 2, .version = "1"};
  TuningRow tuning{
      .target = target::to_text(target::code_target(other, 2)), .threads = 2, .version = "1"};
  EXPECT_EQ(why_unfit(agent, tuning), "");
  tuning.threads = 4;
  EXPECT_EQ(why_unfit(agent, tuning), "has 2 of 4 threads");
  tuning.threads = 1;
  tuning.version = "2";
  EXPECT_EQ(why_unfit(agent, tuning), "runs version 1, this is 2");
  tuning.version = "1";
  tuning.labels = "quiet=yes";
  EXPECT_EQ(why_unfit(agent, tuning), "has no label quiet=yes");
  tuning.labels = "";
  // A cache that a hypervisor cut a little is the same machine, another size is not.
  other.l3_bytes += 1;
  agent.target = target::to_text(other);
  EXPECT_EQ(why_unfit(agent, tuning), "");
  other.l2_bytes *= 2;
  agent.target = target::to_text(other);
  EXPECT_NE(why_unfit(agent, tuning).find("is another machine"), std::string::npos);
  agent.state = AgentState::kDraining;
  EXPECT_EQ(why_unfit(agent, tuning), "draining");
}

}  // namespace
}  // namespace tessera::fleet
