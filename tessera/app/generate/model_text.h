// What a language model's files say of text: its vocabulary and its template of chats.
#pragma once

#include <string>

#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::app {

struct ModelText {
  tokenizer::Vocabulary vocabulary;
  std::string chat_template;  // empty: it has none
};

// Of a GGUF file or of a folder with tokenizer.json. Errors name the file and the member.
Result<ModelText> read_model_text(const std::string& path);

}  // namespace tessera::app
