// The vocabulary and the chat template in the metadata of a GGUF file.
#pragma once

#include "tessera/frontend/gguf/file.h"
#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::app {

// Errors name the file and the key, or what is not supported.
Result<tokenizer::Vocabulary> gguf_vocabulary(const gguf::File& file);

}  // namespace tessera::app
