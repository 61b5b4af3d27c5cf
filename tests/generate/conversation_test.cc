#include "tessera/app/generate/conversation.h"

#include <gtest/gtest.h>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"

namespace tessera::app {
namespace {

using tokenizer::Token;

class ConversationTest : public ::testing::Test {
 protected:
  static tokenizer::Tokenizer byte_tokenizer() {
    tokenizer::Vocabulary v;
    for (int b = 0; b < 256; ++b) {
      tokenizer::append_utf8(&v.tokens.emplace_back(),
                             tokenizer::character_of_byte(static_cast<unsigned char>(b)));
    }
    v.kinds.assign(256, tokenizer::TokenKind::kNormal);
    return tokenizer::Tokenizer::make(std::move(v)).value();
  }
  Conversation make(std::optional<std::string> system = "Be kind.") const {
    return {tokenizer_, ChatFormat::recognise("<|im_start|><|im_end|>", "", "").value(),
            std::move(system)};
  }
  std::vector<Token> tokens(const std::string& text) const { return *tokenizer_.encode(text); }
  // Where nothing has to be forgotten.
  static std::string all(const std::vector<std::pair<std::string, std::string>>& turns,
                         const std::string& asked) {
    std::string out = "<|im_start|>system\nBe kind.<|im_end|>\n";
    for (const auto& [user, answer] : turns) {
      out += "<|im_start|>user\n" + user + "<|im_end|>\n<|im_start|>assistant\n" + answer +
             "<|im_end|>\n";
    }
    return out + "<|im_start|>user\n" + asked + "<|im_end|>\n<|im_start|>assistant\n";
  }
  std::string asked(Conversation& c, const std::string& user, const ChatRoom& room) const {
    const auto out = c.ask(user, room);
    EXPECT_TRUE(out.ok()) << out.error().message;
    return out.ok() ? tokenizer_.decode(*out) : "";
  }

  tokenizer::Tokenizer tokenizer_ = byte_tokenizer();
};

TEST_F(ConversationTest, HoldsAllTurnsWhileThereIsRoom) {
  Conversation c = make();
  const ChatRoom room{.capacity = 1000, .answer = 100};
  EXPECT_EQ(asked(c, "Hi", room), all({}, "Hi"));
  c.answer(tokens("Hello."));
  EXPECT_EQ(asked(c, "Why", room), all({{"Hi", "Hello."}}, "Why"));
  EXPECT_EQ(c.forgotten(), 0);
}

TEST_F(ConversationTest, ForgetsTheOldestTurnsWhereItIsFull) {
  Conversation c = make();
  const std::string answer(40, 'a');
  const auto size = [&](std::size_t turns) {
    return std::ssize(
        all(std::vector<std::pair<std::string, std::string>>(turns, {"1", answer}), "1"));
  };
  // Four turns and an answer fit, five do not.
  const ChatRoom room{.capacity = size(4) + 50, .answer = 50};
  std::vector<std::pair<std::string, std::string>> turns;
  for (int i = 0; i < 5; ++i) {
    const std::string user = std::to_string(i);
    EXPECT_EQ(asked(c, user, room), all(turns, user)) << i;
    EXPECT_EQ(c.forgotten(), 0);
    c.answer(tokens(answer));
    turns.emplace_back(user, answer);
  }
  // As many are left as take half of the room.
  std::size_t left = 5;
  while (size(left) > room.capacity / 2) --left;
  ASSERT_GT(left, 0U);
  ASSERT_LT(left, 4U);
  turns.erase(turns.begin(), turns.end() - static_cast<std::ptrdiff_t>(left));
  EXPECT_EQ(asked(c, "5", room), all(turns, "5")) << "the system's words stay";
  EXPECT_EQ(c.forgotten(), 5 - std::ssize(turns));
  c.answer(tokens(answer));
  turns.emplace_back("5", answer);
  EXPECT_EQ(asked(c, "6", room), all(turns, "6")) << "there is room again";
  EXPECT_EQ(c.forgotten(), 0);
}

TEST_F(ConversationTest, AQuestionThatIsTooLongIsAsIfNobodyHadAsked) {
  Conversation c = make();
  const ChatRoom room{.capacity = 200, .answer = 50};
  EXPECT_EQ(asked(c, "Hi", room), all({}, "Hi"));
  c.answer(tokens("Hello."));
  const std::string much(200, 'x');
  EXPECT_EQ(c.ask(much, room).error().message,
            "the question has " + std::to_string(all({}, much).size()) +
                " tokens, and the context holds 200; --context sets it");
  EXPECT_EQ(c.forgotten(), 0);
  const ChatRoom more{.capacity = 400};
  EXPECT_EQ(asked(c, "Why", more), all({{"Hi", "Hello."}}, "Why"));
  // One that leaves less than an answer may need is asked all the same.
  Conversation other = make();
  const std::string long_one(100, 'x');
  EXPECT_EQ(asked(other, long_one, room), all({}, long_one));
}

}  // namespace
}  // namespace tessera::app
