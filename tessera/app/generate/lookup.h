// Guesses what comes next from what a text already said.
#pragma once

#include <span>
#include <vector>

#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::app {

// The tokens, at most `most`, that followed the last place where the text had its last tokens
// before; the longer the common end, up to three tokens, the better. Empty: there is no such place.
std::vector<tokenizer::Token> looked_up(std::span<const tokenizer::Token> text, std::size_t most);

}  // namespace tessera::app
