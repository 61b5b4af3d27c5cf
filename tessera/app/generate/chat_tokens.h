// Prompts and conversations as the tokens that a model reads.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tessera/app/generate/chat.h"
#include "tessera/frontend/tokenizer/tokenizer.h"

namespace tessera::app {

// kUnsupported: the template is empty or of no known family.
Result<ChatFormat> chat_format(const tokenizer::Tokenizer& tokenizer,
                               std::string_view chat_template);

// The tokens of a prompt that was written with its marks: control tokens are recognised in it. One
// that marks the beginning is not added to one that is there.
Result<std::vector<tokenizer::Token>> prompt_tokens(const tokenizer::Tokenizer& tokenizer,
                                                    std::string_view prompt);

// The tokens of parts of a chat, the first ones of a text or what follows others.
Result<std::vector<tokenizer::Token>> chat_tokens(const tokenizer::Tokenizer& tokenizer,
                                                  const ChatFormat& format,
                                                  std::span<const ChatPart> parts, bool first);

}  // namespace tessera::app
