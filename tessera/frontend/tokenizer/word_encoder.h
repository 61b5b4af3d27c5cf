// What turns one word into tokens: one for each algorithm.
#pragma once

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tessera/frontend/tokenizer/vocabulary.h"

namespace tessera::tokenizer {

using TokenOfText = std::unordered_map<std::string_view, Token>;

class WordEncoder {
 public:
  virtual ~WordEncoder() = default;
  virtual void encode(std::string_view word, std::vector<Token>* out) const = 0;
};

// `vocabulary` is checked; it and `tokens` outlive the encoder. They fail on merges that do not
// fit.
Result<std::unique_ptr<WordEncoder>> make_merge_encoder(const Vocabulary& vocabulary,
                                                        const TokenOfText& tokens);
Result<std::unique_ptr<WordEncoder>> make_unigram_encoder(const Vocabulary& vocabulary,
                                                          const TokenOfText& tokens);
Result<std::unique_ptr<WordEncoder>> make_word_piece_encoder(const Vocabulary& vocabulary,
                                                             const TokenOfText& tokens);

// The token of a byte, "<0xE2>", where the vocabulary has one.
std::vector<std::optional<Token>> byte_tokens(const TokenOfText& tokens);
// The tokens of a character without one of its own: of its bytes, or the unknown one, or none.
// `fuse`: what is before it in `out` since `begin` may be the same unknown token.
void append_unknown(const Vocabulary& vocabulary, const std::vector<std::optional<Token>>& of_byte,
                    std::string_view character, std::size_t begin, std::vector<Token>* out);

// Byte-level vocabularies write each byte as a character: printable ones as they are, the others
// from U+0100 on.
char32_t character_of_byte(unsigned char byte);
// The bytes that a token of such a vocabulary stands for; its own text when it is not written so.
std::string bytes_of_characters(std::string_view text);

}  // namespace tessera::tokenizer
