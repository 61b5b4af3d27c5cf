// A conversation in the format of a model, turn by turn, as the tokens that the model reads.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/generate/chat.h"
#include "tessera/frontend/tokenizer/tokenizer.h"

namespace tessera::app {

// Tokens that the model remembers, and those among them that are kept for an answer.
struct ChatRoom {
  std::int64_t capacity = 0, answer = 0;
};

class Conversation {
 public:
  // The tokenizer outlives it.
  Conversation(const tokenizer::Tokenizer& tokenizer, ChatFormat format,
               std::optional<std::string> system)
      : tokenizer_(tokenizer), format_(std::move(format)), system_(std::move(system)) {}

  // All tokens up to where the answer to a question begins. Where they leave no room for it, the
  // oldest questions are forgotten with their answers. kInvalidArgument: the question alone is
  // longer than what the model remembers; it is as if nobody had asked.
  Result<std::vector<tokenizer::Token>> ask(const std::string& user, const ChatRoom& room);
  // As it was generated.
  void answer(std::vector<tokenizer::Token> tokens) { turns_.back().answer = std::move(tokens); }

  std::int64_t forgotten() const { return forgotten_; }  // questions, when the last one was asked

 private:
  struct Turn {
    std::string user;
    std::vector<tokenizer::Token> tokens, answer;  // up to the answer, and that
  };
  Result<Turn> turn(const std::string& user, bool first) const;
  std::int64_t size() const;

  const tokenizer::Tokenizer& tokenizer_;
  ChatFormat format_;
  std::optional<std::string> system_;
  std::vector<Turn> turns_;
  std::int64_t forgotten_ = 0;
};

}  // namespace tessera::app
