#include "tessera/support/line_program.h"

#include <string>

#include <gtest/gtest.h>

#include "tessera/support/json_lines.h"

namespace tessera {
namespace {

TEST(LineProgram, AnswersLineByLine) {
  const auto program = LineProgram::start("sh -c 'while read -r x; do echo \"<$x>\"; done'");
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ((*program)->ask("one").value(), "<one>");
  EXPECT_EQ((*program)->ask("").value(), "<>");
  const std::string much(300'000, 'x');
  EXPECT_EQ((*program)->ask(much).value(), "<" + much + ">");
  EXPECT_EQ((*program)->error(), "");
}

TEST(LineProgram, IsALineOfTheShell) {
  const auto program =
      LineProgram::start("cd / && NAME=there sh -c 'read x; echo \"$x $NAME $PWD\"'");
  ASSERT_TRUE(program.ok()) << program.error().message;
  EXPECT_EQ((*program)->ask("hi").value(), "hi there /");
}

TEST(LineProgram, SaysThatItDoesNotExist) {
  const auto program = LineProgram::start("/nowhere/program 2>/dev/null");
  ASSERT_TRUE(program.ok());
  const auto reply = (*program)->ask("x");
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.error().message, "/nowhere/program 2>/dev/null: it cannot be started");
}

TEST(LineProgram, SaysHowItEnded) {
  const auto left = LineProgram::start("sh -c 'read x; echo hi; exit 3'");
  EXPECT_EQ((*left)->ask("x").value(), "hi");
  EXPECT_NE((*left)->ask("x").error().message.find("ended with code 3"), std::string::npos);
  EXPECT_NE((*left)->ask("x").error().message.find("ended with code 3"), std::string::npos);
  const auto killed = LineProgram::start("sh -c 'read x; kill -SEGV $$'");
  EXPECT_NE((*killed)->ask("x").error().message.find("Segmentation fault"), std::string::npos);
  const auto silent = LineProgram::start("exec >&- <&-; sleep 5");
  EXPECT_NE((*silent)->ask("x").error().message.find("closed its output"), std::string::npos);
}

TEST(LineProgram, IsNotWaitedForWithoutEnd) {
  const auto hangs = LineProgram::start("sleep 30", {.reply_s = 0.1});
  const auto reply = (*hangs)->ask("x");
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message.find("no answer within 0.1 s"), std::string::npos);
  // One that does not even read.
  const auto deaf = LineProgram::start("sleep 30", {.reply_s = 0.1});
  EXPECT_NE((*deaf)->ask(std::string(8'000'000, 'x')).error().message.find("no answer"),
            std::string::npos);
}

TEST(LineProgram, AnswersHaveALimit) {
  const auto talks =
      LineProgram::start("yes | tr -d '\\n'", {.reply_s = 20, .most_bytes = 100'000});
  const auto reply = (*talks)->ask("x");
  ASSERT_FALSE(reply.ok());
  EXPECT_NE(reply.error().message.find("more than 100000 bytes"), std::string::npos);
}

TEST(LineProgram, QuestionsMayHoldAnyBytes) {
  const auto program = LineProgram::start("cat");
  const nlohmann::json question = {{"name", "a\xff"}, {"count", 2}};
  const auto name = [](const nlohmann::json& j) { return j.at("name").get<std::string>(); };
  EXPECT_EQ(converse(**program, question, name).value(), "a\xef\xbf\xbd");
  const auto wrong = converse(**program, question,
                              [](const nlohmann::json& j) { return j.at("size").get<int>(); });
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("cat: answered '{"), std::string::npos);
}

TEST(LineProgram, TheFirstReasonStays) {
  const auto program = LineProgram::start("cat");
  EXPECT_EQ((*program)->ask("x").value(), "x");
  EXPECT_EQ((*program)->fail("wrong").message, "cat: wrong");
  EXPECT_EQ((*program)->fail("worse").message, "cat: wrong");
  EXPECT_EQ((*program)->ask("x").error().message, "cat: wrong");
  EXPECT_EQ((*program)->error(), "cat: wrong");
}

}  // namespace
}  // namespace tessera
