// Programs of users as policies.
#include <algorithm>
#include <fstream>
#include <unordered_set>

#include <gtest/gtest.h>

#include "tessera/search/policy_program.h"
#include "toy_space.h"

namespace tessera::search {
namespace {

// A program that gives these answers, one a line, and then ends.
std::string answering(const std::string& name, const std::string& lines) {
  const std::string path = ::testing::TempDir() + "/policy_" + name + ".txt";
  std::ofstream(path) << lines;
  return "sh -c 'while read -r answer <&3; do read -r question; echo \"$answer\"; done' 3<" + path;
}

std::unique_ptr<Policy> policy_of(const space::Space& space,
                                  const std::shared_ptr<PolicyProgram>& program) {
  PolicyOptions options;
  options.program = program;
  return (*find_policy("exec"))->make(space, no_scorer(), options);
}

std::string quoted(const space::Space& space, const decide::Candidate& c) {
  return "\"" + space.to_text(c) + "\"";
}

TEST(ProgramPolicy, ProposesWhatItsProgramSays) {
  const space::Space space = testing::make_toy_space(8);
  Rng rng(5);
  const decide::Candidate a = space.sample(rng), b = space.sample(rng);
  const auto program = PolicyProgram::start(
      answering("says", "{}\n{}\n{\"ask\": \"sample\", \"count\": 3}\n{\"candidates\": [" +
                            quoted(space, a) + ", " + quoted(space, b) + "]}\n{}\n"));
  ASSERT_TRUE(program.ok()) << program.error().message;
  const auto policy = policy_of(space, *program);
  const std::vector<decide::Candidate> proposed = policy->propose(4);
  ASSERT_EQ(proposed.size(), 4u);
  EXPECT_EQ(proposed[0], a);
  EXPECT_EQ(proposed[1], b);
  policy->observe(std::vector<Observation>{{a, 0.5}});
  EXPECT_EQ((*program)->error(), "");
}

// Whatever the program answers third, the search goes on, and the reason is known.
std::string failure_of(const std::string& name, const std::string& answer) {
  const space::Space space = testing::make_toy_space(8);
  const auto program = PolicyProgram::start(answering(name, "{}\n{}\n" + answer));
  EXPECT_TRUE(program.ok());
  const auto policy = policy_of(space, *program);
  std::unordered_set<decide::Candidate, decide::CandidateHash> seen;
  for (int round = 0; round < 3; ++round) {
    std::vector<Observation> results;
    for (const decide::Candidate& c : policy->propose(8)) {
      EXPECT_TRUE(space.check(c).ok());
      EXPECT_TRUE(seen.insert(c).second);
      results.push_back({c, testing::toy_seconds(space, c)});
    }
    EXPECT_EQ(results.size(), 8u);
    policy->observe(results);
  }
  return (*program)->error();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(ProgramPolicy, TheSearchContinuesWithoutAProgramThatFails) {
  const space::Space space = testing::make_toy_space(8);
  const std::string text = quoted(space, space.preferred());
  EXPECT_TRUE(contains(failure_of("json", "nonsense\n"), "answered 'nonsense'"));
  EXPECT_TRUE(contains(failure_of("neither", "{}\n"), "neither"));
  EXPECT_TRUE(contains(failure_of("dies", ""), "it ended"));
  EXPECT_TRUE(contains(failure_of("text", "{\"candidates\": [\"a: b=c\"]}\n"), "a"));
  EXPECT_TRUE(contains(failure_of("number", "{\"candidates\": [7]}\n"), "answered"));
  EXPECT_TRUE(contains(failure_of("unknown", "{\"ask\": \"weather\"}\n"), "asked for 'weather'"));
  EXPECT_TRUE(contains(failure_of("count", "{\"ask\": \"sample\", \"count\": -1}\n"), "answered"));
  std::string many = text;
  for (int i = 0; i < 8; ++i) many += ", " + text;
  EXPECT_TRUE(contains(failure_of("many", "{\"candidates\": [" + many + "]}\n"),
                       "proposed 9 candidates where 8 were wanted"));
}

TEST(ProgramPolicy, OneThatHangsIsLeft) {
  const auto silent = PolicyProgram::start("sleep 30", {.reply_s = 0.1});
  ASSERT_FALSE(silent.ok());
  EXPECT_TRUE(contains(silent.error().message, "no answer within 0.1 s"));
  const auto program = PolicyProgram::start("sh -c 'read x; echo {}; sleep 30'", {.reply_s = 0.2});
  ASSERT_TRUE(program.ok()) << program.error().message;
  const space::Space space = testing::make_toy_space(8);
  EXPECT_EQ(policy_of(space, *program)->propose(8).size(), 8u);
  EXPECT_TRUE(contains((*program)->error(), "no answer"));
}

TEST(ProgramPolicy, TheExampleFindsMoreThanRandom) {
  if (std::system("python3 -c pass 2>/dev/null") != 0) GTEST_SKIP() << "no python3";
  const auto program = PolicyProgram::start(std::string(EXAMPLES) + "/own/policy.py");
  ASSERT_TRUE(program.ok()) << program.error().message;
  const space::Space space = testing::make_toy_space(8);
  testing::ToyOptions options{.policy = "exec", .trials = 160};
  options.options.program = *program;
  const testing::ToyRun own = run_toy(space, options);
  EXPECT_EQ((*program)->error(), "");
  options.policy = "random";
  EXPECT_LT(own.best(), run_toy(space, options).best());
}

}  // namespace
}  // namespace tessera::search
