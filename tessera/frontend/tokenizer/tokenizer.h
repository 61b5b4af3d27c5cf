// Text to tokens and back, for all vocabularies.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/frontend/tokenizer/pattern.h"
#include "tessera/frontend/tokenizer/vocabulary.h"
#include "tessera/support/result.h"

namespace tessera::tokenizer {

// A part of a text. Control tokens are recognised where they are permitted and lie within one part;
// everywhere else their names are plain text. Words may reach over parts.
struct Part {
  std::string_view text;
  bool control_tokens = false;
};

// What turns words into tokens: one for each algorithm.
class WordEncoder;

class Tokenizer {
 public:
  // Refuses, with the reason: a vocabulary that is empty, huge or says a text twice; merges, ids
  // and lists that do not fit it; patterns that are not supported.
  static Result<Tokenizer> make(Vocabulary vocabulary);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  // Linear in the length of the text but for a logarithm. `whole`: with the tokens that the
  // vocabulary wants at the beginning and at the end. `continues`: it follows another text, so that
  // no space is read before its beginning. kUnsupported when a pattern of the vocabulary goes back
  // and forth too often on this text.
  Result<std::vector<Token>> encode(std::span<const Part> parts, bool whole = true,
                                    bool continues = false) const;
  Result<std::vector<Token>> encode(std::string_view text, bool whole = true) const;

  // The bytes that it stands for, maybe no whole characters; nothing for control tokens and ids
  // that do not exist.
  std::string_view bytes(Token token) const;
  // All of a text; invalid UTF-8 replaced.
  std::string decode(std::span<const Token> tokens) const;

  // As the vocabulary has it.
  std::size_t size() const { return vocabulary_->tokens.size(); }
  std::optional<Token> find(std::string_view text) const;
  bool is_end(Token token) const;  // of a text or a turn
  const Vocabulary& vocabulary() const { return *vocabulary_; }

 private:
  struct Names;
  Tokenizer();
  Result<void> check();
  void read_bytes();
  TokenKind kind(Token token) const;
  // The longest token that stands in the text from `at` on although it is no word.
  std::optional<Token> marked(std::string_view text, bool control_tokens) const;
  Result<void> encode_plain(std::string_view text, bool space_before,
                            std::vector<Token>* out) const;
  Result<void> encode_words(std::string_view text, std::vector<Token>* out) const;

  std::unique_ptr<const Vocabulary> vocabulary_;  // others point into it
  std::vector<Pattern> patterns_;                 // of the splits
  std::vector<std::string> bytes_;                // of each token
  std::unique_ptr<Names> names_;
  std::unique_ptr<WordEncoder> words_;
};

// The text of tokens as they come: what is no whole character yet is held back.
class TextStream {
 public:
  // `continues`: the tokens follow others, so that a space at their beginning is one of the text.
  explicit TextStream(const Tokenizer& tokenizer, bool continues = false)
      : tokenizer_(tokenizer), started_(continues) {}

  std::string push(Token token);
  std::string finish();  // what was held back, replaced

 private:
  const Tokenizer& tokenizer_;
  std::string held_;
  bool started_;
};

}  // namespace tessera::tokenizer
