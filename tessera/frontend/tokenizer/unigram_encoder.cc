// The tokens whose scores have the greatest sum.
#include <algorithm>
#include <limits>

#include "tessera/frontend/tokenizer/byte_trie.h"
#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/invalid.h"

namespace tessera::tokenizer {
namespace {

// A character without a token costs this much more than the worst token.
constexpr double kUnknownPenalty = 10;

class UnigramEncoder final : public WordEncoder {
 public:
  UnigramEncoder(const Vocabulary& vocabulary, const TokenOfText& tokens)
      : vocabulary_(vocabulary), of_byte_(byte_tokens(tokens)) {
    double worst = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < vocabulary.tokens.size(); ++i) {
      const TokenKind kind = vocabulary.kinds.empty() ? TokenKind::kNormal : vocabulary.kinds[i];
      if (kind != TokenKind::kNormal && kind != TokenKind::kUserDefined) continue;
      worst = std::min(worst, vocabulary.scores[i]);
      trie_.add(vocabulary.tokens[i], static_cast<Token>(i));
    }
    unknown_ = worst - kUnknownPenalty;
  }

  void encode(std::string_view word, std::vector<Token>* out) const override {
    const std::size_t begin = out->size();
    for (const Step& step : best_path(word)) {
      if (step.token >= 0) {
        out->push_back(step.token);
      } else {
        append_unknown(vocabulary_, of_byte_, word.substr(step.from, step.to - step.from), begin,
                       out);
      }
    }
  }

 private:
  struct Step {
    std::size_t from, to;
    Token token;  // -1: a character without one
  };
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    std::size_t from = 0;
    Token token = -1;
  };

  std::vector<Step> best_path(std::string_view word) const {
    std::vector<Best> best(word.size() + 1);  // of the text up to each byte
    best[0].score = 0;
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t bytes = first_code_point(word.substr(at)).bytes;
      const double so_far = best[at].score;
      const auto offer = [&](Token token, std::size_t length, double score) {
        Best& there = best[at + length];
        if (so_far + score > there.score) there = {so_far + score, at, token};
      };
      bool single = false;  // a token of this character alone
      trie_.each_prefix(word.substr(at), [&](Token token, std::size_t length) {
        offer(token, length, vocabulary_.scores[static_cast<std::size_t>(token)]);
        single = single || length == bytes;
      });
      if (!single) offer(-1, bytes, unknown_);
      at += bytes;
    }
    std::vector<Step> path;
    for (std::size_t at = word.size(); at > 0; at = best[at].from)
      path.push_back({best[at].from, at, best[at].token});
    std::reverse(path.begin(), path.end());
    return path;
  }

  const Vocabulary& vocabulary_;
  std::vector<std::optional<Token>> of_byte_;
  ByteTrie trie_;
  double unknown_ = 0;
};

}  // namespace

Result<std::unique_ptr<WordEncoder>> make_unigram_encoder(const Vocabulary& v,
                                                          const TokenOfText& tokens) {
  if (v.scores.empty()) return invalid("the vocabulary has no scores, which unigram tokens need");
  return std::unique_ptr<WordEncoder>(std::make_unique<UnigramEncoder>(v, tokens));
}

}  // namespace tessera::tokenizer
