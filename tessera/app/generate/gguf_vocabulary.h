// The vocabulary in the metadata of a GGUF file.
#pragma once

#include "tessera/frontend/gguf/file.h"
#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::app {

// Errors name the file and the key, or what is not supported.
Result<tokenizer::Vocabulary> gguf_vocabulary(const gguf::File& file);

// Control and user-defined tokens whose names say that they end a turn of a chat or a text: files
// name one of them. All of them are control tokens from then on.
void add_ends_by_name(tokenizer::Vocabulary* vocabulary);

}  // namespace tessera::app
