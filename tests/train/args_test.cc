#include "tessera/learn/train/args.h"

#include <CLI/CLI.hpp>
#include <gtest/gtest.h>

namespace tessera::train {
namespace {

Flags parse(std::vector<std::string> words) {
  Flags flags;
  CLI::App app;
  add_flags(app, flags);
  std::reverse(words.begin(), words.end());
  app.parse(std::move(words));
  return flags;
}

TEST(Args, LaterFlagsReplaceEarlierOnes) {
  Flags flags = parse({"--data", "d/", "--loss", "mse", "--epochs", "3", "--loss", "rank",
                       "--hyper", "hidden=32,layers=1", "--split", "by-task", "--tasks", "50"});
  ASSERT_TRUE(resolve(flags).ok());
  EXPECT_EQ(flags.train.trainee.loss, Loss::kRank);
  EXPECT_EQ(flags.train.epochs, 3);
  EXPECT_EQ(flags.train.network, "mlp");
  EXPECT_EQ(flags.train.lr, 1e-3);
  EXPECT_EQ(flags.train.hyper, (nn::Hyper{{"hidden", 32}, {"layers", 1}}));
  EXPECT_EQ(flags.features, "d-features");
  EXPECT_EQ(flags.examples.kind, dataset::SplitKind::kByTask);
  EXPECT_EQ(flags.examples.most_tasks, 50);
}

TEST(Args, FineTuningTakesTheNetworkOfTheFileAndSmallerSteps) {
  Flags flags = parse({"--data", "d", "--init", "x.safetensors"});
  ASSERT_TRUE(resolve(flags).ok());
  EXPECT_EQ(flags.train.network, "");
  EXPECT_EQ(flags.train.lr, 2e-4);
}

TEST(Args, BadWordsAreNamed) {
  const auto refusal = [](std::vector<std::string> words) {
    Flags flags = parse(std::move(words));
    const Result<void> resolved = resolve(flags);
    return resolved.ok() ? std::string() : resolved.error().message;
  };
  EXPECT_EQ(refusal({}), "--data names no dataset");
  EXPECT_EQ(refusal({"--data", "d", "--loss", "l1"}),
            "no loss 'l1'; there are mse, rank, lambdarank, listmle, hinge");
  EXPECT_NE(refusal({"--data", "d", "--split", "x"}).find("by-network"), std::string::npos);
  EXPECT_EQ(refusal({"--data", "d", "--hyper", "hidden"}), "'hidden' is not NAME=NUMBER");
  EXPECT_EQ(refusal({"--data", "d", "--hyper", "=3"}), "'=3' is not NAME=NUMBER");
  EXPECT_EQ(refusal({"--data", "d", "--hyper", "hidden=3x"}), "'hidden=3x' is not NAME=NUMBER");
}

TEST(Args, AListOfJobsHasOneLineEach) {
  const auto jobs = parse_jobs("# all\n\n--model mlp -o a\n  --model lstm -o 'b c'\n");
  ASSERT_EQ(jobs.size(), 2);
  EXPECT_EQ(jobs[0], (std::vector<std::string>{"--model", "mlp", "-o", "a"}));
  EXPECT_EQ(jobs[1], (std::vector<std::string>{"--model", "lstm", "-o", "b c"}));
}

}  // namespace
}  // namespace tessera::train
