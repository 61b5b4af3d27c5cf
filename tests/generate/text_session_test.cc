#include "tessera/app/generate/text_session.h"

#include <gtest/gtest.h>

#include "tessera/app/generate/lookup.h"
#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

using tokenizer::Token;

constexpr Token kEnd = 256;

tokenizer::Tokenizer byte_tokenizer() {
  tokenizer::Vocabulary v;
  for (int b = 0; b < 256; ++b) {
    tokenizer::append_utf8(&v.tokens.emplace_back(),
                           tokenizer::character_of_byte(static_cast<unsigned char>(b)));
  }
  v.tokens.emplace_back("<end>");
  v.kinds.assign(257, tokenizer::TokenKind::kNormal);
  v.kinds[kEnd] = tokenizer::TokenKind::kControl;
  v.end = kEnd;
  return tokenizer::Tokenizer::make(std::move(v)).value();
}

// Knows one text by heart: behind its first n tokens comes the next one.
class Reciter final : public LanguageModel {
 public:
  explicit Reciter(const std::string& text) {
    for (const char c : text) text_.push_back(static_cast<unsigned char>(c));
    text_.push_back(kEnd);
  }
  Result<std::span<const float>> step(std::span<const Token> tokens) override {
    if (fails) return invalid("no power");
    steps.push_back(std::ssize(tokens));
    position += std::ssize(tokens);
    EXPECT_LE(position, capacity());
    logits_.assign(257, 0);
    logits_[static_cast<std::size_t>(text_.at(static_cast<std::size_t>(position)))] = 1;
    return std::span<const float>(logits_);
  }
  Result<std::span<const float>> step_each(std::span<const Token> tokens) override {
    if (fails) return invalid("no power");
    steps.push_back(std::ssize(tokens));
    rows_.clear();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      // Behind a wrong token nothing that was learnt follows.
      right_ = right_ && tokens[i] == text_.at(static_cast<std::size_t>(position));
      ++position;
      rows_.resize(rows_.size() + 257, 0);
      const Token next = right_ ? text_.at(static_cast<std::size_t>(position)) : Token{'?'};
      rows_[257 * i + static_cast<std::size_t>(next)] = 1;
    }
    EXPECT_LE(position, capacity());
    return std::span<const float>(rows_);
  }
  std::int64_t most_each() const override { return each; }
  void rewind(std::int64_t to) override {
    right_ = true;
    EXPECT_LE(to, position);
    position = to;
  }
  std::int64_t capacity() const override { return room; }

  std::int64_t position = 0, room = 1000, each = 1;
  std::vector<std::int64_t> steps;
  bool fails = false;

 private:
  std::vector<Token> text_;
  std::vector<float> logits_, rows_;
  bool right_ = true;
};

class TextSessionTest : public ::testing::Test {
 protected:
  Result<TextResult> run(TextSession& session, const std::string& prompt,
                         const TextOptions& options = {}) {
    emitted_.clear();
    return session.run(
        *tokenizer_.encode(prompt), options,
        [&](std::string_view text) { emitted_.emplace_back(text); }, [&] { return turns_-- != 0; });
  }

  tokenizer::Tokenizer tokenizer_ = byte_tokenizer();
  std::vector<std::string> emitted_;
  int turns_ = -1;  // after so many questions whether to go on the answer is no
};

TEST_F(TextSessionTest, GoesOnToTheEndOfTheText) {
  Reciter model("Once upon \xf0\x9f\x98\x80 a time");
  TextSession session(model, tokenizer_);
  const auto out = run(session, "Once");
  ASSERT_TRUE(out.ok()) << out.error().message;
  EXPECT_EQ(out->text, " upon \xf0\x9f\x98\x80 a time");
  EXPECT_EQ(out->end, TextEnd::kEnded);
  EXPECT_EQ(out->prompt_tokens, 4);
  EXPECT_EQ(std::ssize(out->tokens), 17);
  EXPECT_EQ(emitted_.size(), 14u) << "whole characters alone";
}

TEST_F(TextSessionTest, EndsForEachReason) {
  Reciter model("abcdefghij");
  TextSession session(model, tokenizer_);
  const auto length = run(session, "ab", {.max_tokens = 3});
  EXPECT_EQ(length->text, "cde");
  EXPECT_EQ(length->end, TextEnd::kMaxTokens);
  EXPECT_EQ(model.position, 4) << "the last token is not read: nobody asked what follows";
  const auto stop = run(session, "ab", {.stops = {"fgx", "fg"}});
  EXPECT_EQ(stop->text, "cde");
  EXPECT_EQ(stop->end, TextEnd::kStopString);
  model.room = 6;
  const auto room = run(session, "ab");
  EXPECT_EQ(room->text, "cdefg") << "the sixth token is read, and what follows it known";
  EXPECT_EQ(room->end, TextEnd::kCapacity);
  turns_ = 2;
  const auto interrupted = run(session, "ab");
  EXPECT_EQ(interrupted->text, "cd");
  EXPECT_EQ(interrupted->end, TextEnd::kInterrupted);
  EXPECT_STREQ(to_text(TextEnd::kEnded), "end");
  EXPECT_STREQ(to_text(TextEnd::kInterrupted), "interrupted");
}

TEST_F(TextSessionTest, HeldBackTextComesAtTheEnd) {
  Reciter model("a\xf0\x9f\x98");
  TextSession session(model, tokenizer_);
  EXPECT_EQ(run(session, "a")->text, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
  Reciter stops("abST");
  TextSession other(stops, tokenizer_);
  EXPECT_EQ(run(other, "a", {.stops = {"STOP"}})->text, "bST");
}

TEST_F(TextSessionTest, WhatWasReadIsNotReadAgain) {
  Reciter model("abcdefghij");
  TextSession session(model, tokenizer_);
  ASSERT_TRUE(run(session, "abc", {.max_tokens = 3}).ok());  // reads a to e
  model.steps.clear();
  const auto more = run(session, "abcdefg", {.max_tokens = 1});
  EXPECT_EQ(more->text, "h");
  EXPECT_EQ(more->reused_tokens, 5);
  EXPECT_EQ(model.steps, std::vector<std::int64_t>{2});
  const auto shorter = run(session, "ab", {.max_tokens = 1});
  EXPECT_EQ(shorter->reused_tokens, 1) << "the last token is always read";
  const auto other = run(session, "xb", {.max_tokens = 1});
  EXPECT_EQ(other->reused_tokens, 0);
}

TEST_F(TextSessionTest, LongPromptsCanBeInterrupted) {
  const std::string text(900, 'a');
  Reciter model(text);
  TextSession session(model, tokenizer_);
  turns_ = 1;
  const auto out = run(session, text.substr(0, 800));
  EXPECT_EQ(out->end, TextEnd::kInterrupted);
  EXPECT_EQ(model.steps, (std::vector<std::int64_t>{256, 256}));
  turns_ = -1;
  EXPECT_EQ(run(session, text.substr(0, 800))->reused_tokens, 512);
}

TEST_F(TextSessionTest, GuessesChangeTheTimeAlone) {
  const std::string text = "the cat and the cat sat; the dog and the cat sat on the mat";
  Reciter plain(text);
  TextSession one(plain, tokenizer_);
  const auto want = run(one, "the c");
  for (const std::int64_t each : {2, 4, 8}) {
    Reciter model(text);
    model.each = each;
    TextSession session(model, tokenizer_);
    const auto got = run(session, "the c");
    ASSERT_TRUE(got.ok()) << got.error().message;
    EXPECT_EQ(got->text, want->text);
    EXPECT_EQ(got->tokens, want->tokens);
    EXPECT_GT(got->right_tokens, 10);
    EXPECT_GT(got->guessed_tokens, got->right_tokens);
    EXPECT_LT(model.steps.size(), plain.steps.size());
    EXPECT_EQ(model.position, std::ssize(session.remembered()));
    for (const std::int64_t max : {1, 9, 20}) {
      const auto cut = run(session, "the c", {.max_tokens = max});
      EXPECT_EQ(cut->text, want->text.substr(0, static_cast<std::size_t>(max)));
      EXPECT_LE(model.position, 5 + max);
    }
    model.room = 40;
    const auto full = run(session, "the c");
    EXPECT_EQ(full->end, TextEnd::kCapacity);
    EXPECT_EQ(full->text, want->text.substr(0, 36));
  }
}

TEST(LookedUp, ContinuesAsTheTextDidBefore) {
  const std::vector<Token> text = {1, 2, 3, 4, 9, 2, 3, 5, 1, 2, 3};
  EXPECT_EQ(looked_up(text, 3), (std::vector<Token>{4, 9, 2})) << "three tokens before two";
  EXPECT_EQ(looked_up(std::span(text).first(7), 2), (std::vector<Token>{4, 9}));
  EXPECT_EQ(looked_up(text, 0), std::vector<Token>{});
  EXPECT_EQ(looked_up(std::span(text).first(5), 3), std::vector<Token>{});
  EXPECT_EQ(looked_up({}, 3), std::vector<Token>{});
  const std::vector<Token> same = {7, 7, 7, 7};
  EXPECT_EQ(looked_up(same, 5), std::vector<Token>{7}) << "no further than the text";
}

TEST_F(TextSessionTest, SaysWhatIsWrong) {
  Reciter model("abc");
  TextSession session(model, tokenizer_);
  EXPECT_EQ(run(session, "").error().message, "the prompt has no token");
  model.room = 2;
  EXPECT_EQ(run(session, "abc").error().message,
            "the prompt has 3 tokens, and the context holds 2; --context sets it");
  EXPECT_NE(run(session, "a", {.sampler = {.top_p = 7}}).error().message.find("top-p is 7"),
            std::string::npos);
  model.fails = true;
  EXPECT_EQ(run(session, "a").error().message, "no power");
}

}  // namespace
}  // namespace tessera::app
