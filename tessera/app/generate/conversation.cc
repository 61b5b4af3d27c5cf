#include "tessera/app/generate/conversation.h"

#include "tessera/app/generate/chat_tokens.h"
#include "tessera/support/invalid.h"

namespace tessera::app {

using tokenizer::Token;

Result<Conversation::Turn> Conversation::turn(const std::string& user, bool first) const {
  const std::vector<ChatPart> parts = first ? format_.first(user, system_) : format_.next(user);
  Turn out{.user = user, .tokens = {}, .answer = {}};
  TESSERA_TRY(out.tokens, chat_tokens(tokenizer_, format_, parts, first));
  return out;
}

std::int64_t Conversation::size() const {
  std::int64_t out = 0;
  for (const Turn& t : turns_) out += std::ssize(t.tokens) + std::ssize(t.answer);
  return out;
}

Result<std::vector<Token>> Conversation::ask(const std::string& user, const ChatRoom& room) {
  TESSERA_TRY(Turn asked, turn(user, turns_.empty()));
  const std::vector<Turn> before = turns_;
  turns_.push_back(std::move(asked));
  forgotten_ = 0;
  if (size() > room.capacity - room.answer) {
    // What is left is read again: half of the room is made free, or it would be full again soon.
    while (turns_.size() > 1 && size() > room.capacity / 2) {
      TESSERA_TRY(Turn oldest, turn(turns_[1].user, true));
      oldest.answer = std::move(turns_[1].answer);
      turns_.erase(turns_.begin());
      turns_[0] = std::move(oldest);
      ++forgotten_;
    }
  }
  if (const std::int64_t all = size(); all > room.capacity) {
    turns_ = before;
    forgotten_ = 0;
    return invalid("the question has {} tokens, and the context holds {}; --context sets it", all,
                   room.capacity);
  }
  std::vector<Token> out;
  for (const Turn& t : turns_) {
    out.insert(out.end(), t.tokens.begin(), t.tokens.end());
    out.insert(out.end(), t.answer.begin(), t.answer.end());
  }
  return out;
}

}  // namespace tessera::app
