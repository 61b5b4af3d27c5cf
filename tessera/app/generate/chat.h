// Conversations as text for the usual families of chat models. Templates in model files are
// programs; they are recognised by what they contain and never run.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::app {

struct ChatPart {
  std::string text;
  bool control_tokens = false;  // false: somebody's words, in which no control token is recognised
};

struct ChatMessage {
  std::string_view role, text;  // the role is "system", "user" or "assistant"
};

class ChatFormat {
 public:
  // Of the template in a model's file, and the texts of the tokens at the beginning and the end of
  // a text. kUnsupported when it is of no family, or longer than any template.
  static Result<ChatFormat> recognise(std::string_view chat_template, std::string_view begin,
                                      std::string_view end);

  const std::string& family() const { return family_; }
  bool begins_text() const { return begins_text_; }  // with the vocabulary's token of beginning
  // What stands before the first answer. Without a system text that of the template, if it has one.
  std::vector<ChatPart> first(std::string_view user,
                              const std::optional<std::string>& system) const;
  // What stands between an answer and the next one.
  std::vector<ChatPart> next(std::string_view user) const;
  // All up to where the answer to the last message begins. kInvalidArgument: they are not the
  // user's and the assistant's in turns up to one of the user, maybe behind one of the system.
  Result<std::vector<ChatPart>> conversation(std::span<const ChatMessage> messages) const;

 private:
  std::string own(std::string_view words) const;
  std::vector<ChatPart> turn(std::string_view system, std::string_view user) const;

  std::string family_;
  // Around the words of each role; `role_open` has ROLE in place of its name.
  std::string role_open_, role_close_, answer_open_, answer_close_;
  std::string before_answer_;               // a space of some, which models write themselves
  std::string system_open_, system_close_;  // within the user's words, where there is no such role
  bool system_is_role_ = true;
  bool trims_ = false;
  bool begins_text_ = false;
  std::string default_system_;
};

// The families that are recognised, for messages.
std::vector<std::string> chat_families();

}  // namespace tessera::app
