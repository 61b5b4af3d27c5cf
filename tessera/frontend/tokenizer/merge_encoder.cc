// Pairs of neighbours become one token, best pair first.
#include <algorithm>
#include <bit>
#include <numeric>
#include <queue>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/invalid.h"

namespace tessera::tokenizer {
namespace {

struct Merge {
  std::uint32_t rank = 0;
  Token result = -1;
};

// Pair of tokens -> merge; open addressing, for it is asked for every pair of neighbours.
class MergeTable {
 public:
  explicit MergeTable(std::size_t most) : slots_(std::bit_ceil(2 * most + 2)) {}

  // Keeps the better of two for the same pair.
  void add(Token left, Token right, Merge merge) {
    Slot& slot = slots_[place(key(left, right))];
    if (slot.merge.result >= 0 && slot.merge.rank <= merge.rank) return;
    slot = {key(left, right), merge};
  }
  const Merge* find(Token left, Token right) const {
    const Slot& slot = slots_[place(key(left, right))];
    return slot.merge.result < 0 ? nullptr : &slot.merge;
  }

 private:
  struct Slot {
    std::uint64_t key = 0;
    Merge merge;
  };
  static std::uint64_t key(Token left, Token right) {
    return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 |
           static_cast<std::uint32_t>(right);
  }
  std::size_t place(std::uint64_t key) const {
    std::uint64_t hash = key * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    for (std::size_t i = hash & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      if (slots_[i].merge.result < 0 || slots_[i].key == key) return i;
    }
  }

  std::vector<Slot> slots_;
};

struct Symbol {
  Token token;
  std::uint32_t before, behind;
};

struct Candidate {
  std::uint32_t rank, at;
  Token left, right;
  // The best is on top of a heap: the lowest rank, then the leftmost.
  bool operator<(const Candidate& other) const {
    return rank != other.rank ? rank > other.rank : at > other.at;
  }
};

class MergeEncoder final : public WordEncoder {
 public:
  MergeEncoder(const Vocabulary& vocabulary, const TokenOfText& tokens, MergeTable merges)
      : vocabulary_(vocabulary), tokens_(tokens), merges_(std::move(merges)) {
    if (vocabulary.algorithm == Algorithm::kBytePairs) {
      for (int b = 0; b < 256; ++b) {
        std::string character;
        append_utf8(&character, character_of_byte(static_cast<unsigned char>(b)));
        const auto it = tokens.find(character);
        of_byte_.push_back(it != tokens.end() ? it->second : vocabulary.unknown);
      }
    } else {
      of_byte_ = byte_tokens(tokens);
    }
  }

  void encode(std::string_view word, std::vector<Token>* out) const override {
    if (vocabulary_.whole_words && append_whole(word, out)) return;
    const std::size_t begin = out->size();
    append_characters(word, begin, out);
    if (out->size() - begin > 1) merge(begin, out);
  }

 private:
  static constexpr std::uint32_t kNone = ~0u;

  bool append_whole(std::string_view word, std::vector<Token>* out) const {
    std::string text(word);
    if (vocabulary_.algorithm == Algorithm::kBytePairs) {
      text.clear();
      for (const char c : word)
        append_utf8(&text, character_of_byte(static_cast<unsigned char>(c)));
    }
    const auto it = tokens_.find(text);
    if (it != tokens_.end()) out->push_back(it->second);
    return it != tokens_.end();
  }

  void append_characters(std::string_view word, std::size_t begin, std::vector<Token>* out) const {
    if (vocabulary_.algorithm == Algorithm::kBytePairs) {
      for (const char c : word) {
        if (const auto token = of_byte_[static_cast<unsigned char>(c)]) out->push_back(*token);
      }
      return;
    }
    for (std::string_view rest = word; !rest.empty();) {
      const std::string_view character = rest.substr(0, first_code_point(rest).bytes);
      const auto it = tokens_.find(character);
      if (it != tokens_.end()) {
        out->push_back(it->second);
      } else {
        append_unknown(vocabulary_, of_byte_, character, begin, out);
      }
      rest.remove_prefix(character.size());
    }
  }

  // Merges the tokens from `begin` on.
  void merge(std::size_t begin, std::vector<Token>* out) const {
    std::vector<Symbol> symbols;
    symbols.reserve(out->size() - begin);
    for (std::size_t i = begin; i < out->size(); ++i) {
      const auto at = static_cast<std::uint32_t>(i - begin);
      symbols.push_back(
          {(*out)[i], at == 0 ? kNone : at - 1, i + 1 < out->size() ? at + 1 : kNone});
    }
    std::vector<Candidate> heap;
    const auto offer = [&](std::uint32_t at) {
      const Token left = symbols[at].token, right = symbols[symbols[at].behind].token;
      const Merge* found = merges_.find(left, right);
      if (found == nullptr) return;
      heap.push_back({found->rank, at, left, right});
      std::push_heap(heap.begin(), heap.end());
    };
    for (std::uint32_t at = 0; at + 1 < symbols.size(); ++at) offer(at);
    while (!heap.empty()) {
      std::pop_heap(heap.begin(), heap.end());
      const Candidate best = heap.back();
      heap.pop_back();
      Symbol& left = symbols[best.at];
      // Either may have been merged since.
      if (left.token != best.left || left.behind == kNone) continue;
      Symbol& right = symbols[left.behind];
      if (right.token != best.right) continue;
      left.token = merges_.find(best.left, best.right)->result;
      right.token = -1;
      left.behind = right.behind;
      if (left.behind != kNone) {
        symbols[left.behind].before = best.at;
        offer(best.at);
      }
      if (left.before != kNone) offer(left.before);
    }
    out->resize(begin);
    for (std::uint32_t at = 0; at != kNone; at = symbols[at].behind)
      out->push_back(symbols[at].token);
  }

  const Vocabulary& vocabulary_;
  const TokenOfText& tokens_;
  MergeTable merges_;
  std::vector<std::optional<Token>> of_byte_;
};

Result<MergeTable> listed_merges(const Vocabulary& v, const TokenOfText& tokens) {
  MergeTable out(v.merges.size());
  for (std::size_t i = 0; i < v.merges.size(); ++i) {
    const std::string_view text = v.merges[i];
    // A token may begin with a space, and never is one alone.
    const std::size_t space = text.find(' ', 1);
    if (space == std::string_view::npos || space + 1 == text.size())
      return invalid("merge {} of the vocabulary, '{}', is not a pair", i, text);
    const std::string_view left = text.substr(0, space), right = text.substr(space + 1);
    const auto l = tokens.find(left), r = tokens.find(right);
    const auto both = tokens.find(std::string(left) + std::string(right));
    if (l == tokens.end() || r == tokens.end() || both == tokens.end()) {
      const std::string missing = l == tokens.end()   ? std::string(left)
                                  : r == tokens.end() ? std::string(right)
                                                      : std::string(left) + std::string(right);
      return invalid("merge {} of the vocabulary, '{}', needs the token '{}', which is missing", i,
                     text, missing);
    }
    out.add(l->second, r->second, {static_cast<std::uint32_t>(i), both->second});
  }
  return out;
}

// Without a list: every two tokens that make a third, ranked by its score.
MergeTable scored_merges(const Vocabulary& v, const TokenOfText& tokens) {
  std::vector<Token> order(v.tokens.size());
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](Token t) { return v.scores[static_cast<std::size_t>(t)]; };
  std::stable_sort(order.begin(), order.end(),
                   [&](Token a, Token b) { return score(a) > score(b); });
  struct Found {
    Token left, right;
    Merge merge;
  };
  std::vector<Found> found;
  std::uint32_t rank = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Token token = order[i];
    if (i > 0 && score(token) != score(order[i - 1])) ++rank;
    if (!v.kinds.empty() && v.kinds[static_cast<std::size_t>(token)] != TokenKind::kNormal &&
        v.kinds[static_cast<std::size_t>(token)] != TokenKind::kUserDefined)
      continue;
    const std::string_view text = v.tokens[static_cast<std::size_t>(token)];
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if ((static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) continue;
      const auto left = tokens.find(text.substr(0, cut)), right = tokens.find(text.substr(cut));
      if (left != tokens.end() && right != tokens.end())
        found.push_back({left->second, right->second, {rank, token}});
    }
  }
  MergeTable out(found.size());
  for (const Found& f : found) out.add(f.left, f.right, f.merge);
  return out;
}

}  // namespace

Result<std::unique_ptr<WordEncoder>> make_merge_encoder(const Vocabulary& v,
                                                        const TokenOfText& tokens) {
  if (v.merges.empty() && v.algorithm == Algorithm::kPieces && !v.scores.empty()) {
    return std::unique_ptr<WordEncoder>(
        std::make_unique<MergeEncoder>(v, tokens, scored_merges(v, tokens)));
  }
  TESSERA_TRY(MergeTable merges, listed_merges(v, tokens));
  return std::unique_ptr<WordEncoder>(std::make_unique<MergeEncoder>(v, tokens, std::move(merges)));
}

}  // namespace tessera::tokenizer
