// The longest token first, word by word.
#include "tessera/frontend/tokenizer/byte_trie.h"
#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/invalid.h"

namespace tessera::tokenizer {
namespace {

class WordPieceEncoder final : public WordEncoder {
 public:
  WordPieceEncoder(const Vocabulary& vocabulary, const TokenOfText& tokens)
      : unknown_(*vocabulary.unknown), most_(vocabulary.most_characters) {
    for (const auto& [text, token] : tokens) {
      if (text.empty()) continue;
      if (text.size() > vocabulary.word_prefix.size() && text.starts_with(vocabulary.word_prefix))
        within_.add(text.substr(vocabulary.word_prefix.size()), token);
      at_start_.add(text, token);
    }
  }

  void encode(std::string_view word, std::vector<Token>* out) const override {
    std::size_t characters = 0;
    for (std::string_view rest = word; !rest.empty(); ++characters)
      rest.remove_prefix(first_code_point(rest).bytes);
    const std::size_t begin = out->size();
    bool whole = characters <= most_;
    for (std::string_view rest = word; whole && !rest.empty();) {
      Token best = -1;
      std::size_t length = 0;
      const bool first = rest.size() == word.size();
      (first ? at_start_ : within_).each_prefix(rest, [&](Token token, std::size_t bytes) {
        best = token;
        length = bytes;
      });
      whole = best >= 0;
      out->push_back(best);
      rest.remove_prefix(length);
    }
    if (whole) return;
    out->resize(begin);
    out->push_back(unknown_);
  }

 private:
  ByteTrie at_start_, within_;
  Token unknown_;
  std::size_t most_;
};

}  // namespace

Result<std::unique_ptr<WordEncoder>> make_word_piece_encoder(const Vocabulary& v,
                                                             const TokenOfText& tokens) {
  if (!v.unknown) return invalid("the vocabulary has no token for unknown words");
  return std::unique_ptr<WordEncoder>(std::make_unique<WordPieceEncoder>(v, tokens));
}

}  // namespace tessera::tokenizer
