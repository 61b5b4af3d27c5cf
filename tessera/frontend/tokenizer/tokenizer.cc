#include "tessera/frontend/tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/frontend/tokenizer/byte_trie.h"
#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tessera/support/invalid.h"

namespace tessera::tokenizer {
namespace {

constexpr std::size_t kMostTokens = 4 << 20;
constexpr std::size_t kMostTokenBytes = 1 << 10;  // of one; bounds the search for marked tokens
constexpr std::size_t kMostTextBytes = 1u << 30;
constexpr std::int64_t kStepsPerCharacter = 500;
constexpr std::string_view kSpaceMark = "\xe2\x96\x81";  // U+2581, which stands for a space

void replace_all(std::string* text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t at = 0;
  for (std::size_t next; (next = text->find(from, at)) != std::string::npos;
       at = next + from.size())
    out.append(*text, at, next - at).append(to);
  *text = out.append(*text, at);
}

// Whether U+2581 stands for a space in the tokens.
bool marks_spaces(const Vocabulary& v) {
  return v.algorithm == Algorithm::kPieces || v.algorithm == Algorithm::kUnigram;
}

// The bytes of the space that `text` ends with; 0: it ends with none.
std::size_t last_space(std::string_view text) {
  for (std::size_t n = 1; n <= std::min<std::size_t>(4, text.size()); ++n) {
    const CodePoint c = first_code_point(text.substr(text.size() - n));
    if (c.bytes == n && is_space(c.value)) return n;
  }
  return 0;
}

// The places of the words of a text, cut by one pattern after the other.
using Spans = std::vector<std::pair<std::size_t, std::size_t>>;

Result<Spans> cut(std::u32string_view text, const Spans& before, const Pattern& pattern,
                  const Split& split) {
  Spans out;
  auto steps = static_cast<std::int64_t>(text.size() + 1) * kStepsPerCharacter;
  for (const auto& [begin, end] : before) {
    const std::u32string_view word = text.substr(begin, end - begin);
    std::size_t gap = 0;  // where what does not match begins
    for (std::size_t at = 0; at < word.size();) {
      const std::optional<std::size_t> match = pattern.match(word, at, &steps);
      if (!match || *match == at) {
        ++at;
        continue;
      }
      if (gap < at) out.push_back({begin + gap, begin + at});
      if (!split.drop_match) out.push_back({begin + at, begin + *match});
      gap = at = *match;
    }
    if (gap < word.size()) out.push_back({begin + gap, end});
  }
  if (steps < 0) {
    return make_error(ErrorCode::kUnsupported,
                      "the vocabulary's split pattern '{}' takes too long on this text",
                      split.pattern);
  }
  return out;
}

}  // namespace

struct Tokenizer::Names {
  TokenOfText token;  // views into the vocabulary
  ByteTrie marked;    // control and user-defined tokens
  std::array<bool, 256> starts_marked{};
};

Tokenizer::Tokenizer() : names_(std::make_unique<Names>()) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Result<Tokenizer> Tokenizer::make(Vocabulary vocabulary) {
  Tokenizer out;
  out.vocabulary_ = std::make_unique<Vocabulary>(std::move(vocabulary));
  TESSERA_DO(out.check());
  const Vocabulary& v = *out.vocabulary_;
  for (const Split& split : v.splits) {
    TESSERA_TRY(Pattern pattern, Pattern::parse(split.pattern));
    out.patterns_.push_back(std::move(pattern));
  }
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const auto token = static_cast<Token>(i);
    const TokenKind kind = out.kind(token);
    if (kind == TokenKind::kNormal || kind == TokenKind::kUnused || kind == TokenKind::kByte)
      continue;
    if (v.tokens[i].empty()) continue;
    out.names_->marked.add(v.tokens[i], token);
    out.names_->starts_marked[static_cast<unsigned char>(v.tokens[i][0])] = true;
  }
  const auto make_encoder = v.algorithm == Algorithm::kUnigram     ? make_unigram_encoder
                            : v.algorithm == Algorithm::kWordPiece ? make_word_piece_encoder
                                                                   : make_merge_encoder;
  TESSERA_TRY(out.words_, make_encoder(v, out.names_->token));
  out.read_bytes();
  return out;
}

Result<void> Tokenizer::check() {
  const Vocabulary& v = *vocabulary_;
  if (v.tokens.empty()) return invalid("the vocabulary is empty");
  if (v.tokens.size() > kMostTokens || v.merges.size() > kMostTokens) {
    return invalid("a vocabulary of {} tokens and {} merges; at most {} of each", v.tokens.size(),
                   v.merges.size(), kMostTokens);
  }
  const auto fits = [&](std::size_t size) { return size == 0 || size == v.tokens.size(); };
  if (!fits(v.kinds.size()) || !fits(v.scores.size())) {
    return invalid("a vocabulary of {} tokens with {} kinds and {} scores", v.tokens.size(),
                   v.kinds.size(), v.scores.size());
  }
  names_->token.reserve(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (v.tokens[i].size() > kMostTokenBytes) {
      return invalid("token {} of the vocabulary has {} bytes; at most {}", i, v.tokens[i].size(),
                     kMostTokenBytes);
    }
    const auto [it, added] = names_->token.emplace(v.tokens[i], static_cast<Token>(i));
    if (!added && !v.tokens[i].empty()) {  // places that some files leave free are empty
      return invalid("tokens {} and {} of the vocabulary are both '{}'", it->second, i,
                     v.tokens[i]);
    }
    if (!v.scores.empty() && !std::isfinite(v.scores[i]))
      return invalid("token {} of the vocabulary has no finite score", i);
  }
  std::vector<Token> ids = v.also_end;
  for (const std::optional<Token>& id : {v.begin, v.end, v.unknown, v.padding})
    if (id) ids.push_back(*id);
  for (const std::vector<Token>* list : {&v.takes_spaces_before, &v.takes_spaces_behind})
    ids.insert(ids.end(), list->begin(), list->end());
  for (const Token id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= v.tokens.size()) {
      return invalid("the vocabulary of {} tokens has none of number {}, which it gives a role",
                     v.tokens.size(), id);
    }
  }
  return {};
}

void Tokenizer::read_bytes() {
  const Vocabulary& v = *vocabulary_;
  const std::vector<std::optional<Token>> of_byte = byte_tokens(names_->token);
  bytes_.reserve(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const TokenKind kind = this->kind(static_cast<Token>(i));
    std::string text;
    if (kind == TokenKind::kUserDefined) {
      text = v.tokens[i];
    } else if (kind == TokenKind::kNormal || kind == TokenKind::kByte) {
      text = v.algorithm == Algorithm::kBytePairs ? bytes_of_characters(v.tokens[i]) : v.tokens[i];
    }
    if (marks_spaces(v)) replace_all(&text, kSpaceMark, " ");
    if (v.algorithm == Algorithm::kWordPiece && kind == TokenKind::kNormal) {
      // Where words were apart is not known: a space stands before each.
      const bool within = !v.word_prefix.empty() && text.starts_with(v.word_prefix);
      text = within ? text.substr(v.word_prefix.size()) : " " + text;
    }
    bytes_.push_back(std::move(text));
  }
  if (!marks_spaces(v)) return;
  for (std::size_t b = 0; b < 256; ++b)
    if (of_byte[b]) bytes_[static_cast<std::size_t>(*of_byte[b])] = static_cast<char>(b);
}

TokenKind Tokenizer::kind(Token token) const {
  const std::vector<TokenKind>& kinds = vocabulary_->kinds;
  return kinds.empty() ? TokenKind::kNormal : kinds[static_cast<std::size_t>(token)];
}

std::optional<Token> Tokenizer::marked(std::string_view text, bool control_tokens) const {
  std::optional<Token> longest;
  if (!names_->starts_marked[static_cast<unsigned char>(text[0])]) return longest;
  names_->marked.each_prefix(text, [&](Token token, std::size_t) {
    if (control_tokens || kind(token) == TokenKind::kUserDefined) longest = token;
  });
  return longest;
}

Result<std::vector<Token>> Tokenizer::encode(std::span<const Part> parts, bool whole,
                                             bool continues) const {
  const Vocabulary& v = *vocabulary_;
  std::vector<Token> out;
  std::string text;
  for (const Part& part : parts) {
    if (part.text.size() > kMostTextBytes - text.size())
      return invalid("a text of more than {} bytes", kMostTextBytes);
    text += part.text;
  }
  if (whole && v.add_begin && v.begin) out.push_back(*v.begin);
  const auto takes_spaces = [](const std::vector<Token>& list, Token token) {
    return std::find(list.begin(), list.end(), token) != list.end();
  };
  const std::string_view all = text;
  const auto space_at = [&](std::size_t at) {
    return at < all.size() && is_space(first_code_point(all.substr(at)).value);
  };
  // Whether one is read before the text from there on.
  const auto space_before = [&](std::size_t from) {
    if (from == 0) return !continues && v.space_before != SpaceBefore::kNever;
    return v.space_before == SpaceBefore::kEach || v.space_before == SpaceBefore::kEachUnlessThere;
  };
  std::size_t plain = 0, at = 0, part_end = 0;  // `plain`: where text without a mark began
  for (const Part& part : parts) {
    part_end += part.text.size();
    while (at < part_end) {
      const auto token = marked(all.substr(at, part_end - at), part.control_tokens);
      if (!token) {
        ++at;
        continue;
      }
      std::size_t plain_end = std::max(at, plain);
      if (takes_spaces(v.takes_spaces_before, *token))
        while (const std::size_t n = last_space(all.substr(plain, plain_end - plain)))
          plain_end -= n;
      TESSERA_DO(encode_plain(all.substr(plain, plain_end - plain), space_before(plain), &out));
      out.push_back(*token);
      at += v.tokens[static_cast<std::size_t>(*token)].size();
      plain = at;
      if (takes_spaces(v.takes_spaces_behind, *token))
        while (space_at(plain)) plain += first_code_point(all.substr(plain)).bytes;
      at = std::max(at, plain);
    }
  }
  TESSERA_DO(encode_plain(all.substr(std::min(plain, all.size())), space_before(plain), &out));
  if (whole && v.add_end && v.end) out.push_back(*v.end);
  return out;
}

Result<std::vector<Token>> Tokenizer::encode(std::string_view text, bool whole) const {
  const Part part{text};
  return encode(std::span(&part, 1), whole);
}

Result<void> Tokenizer::encode_plain(std::string_view text, bool space_before,
                                     std::vector<Token>* out) const {
  if (text.empty()) return {};
  const Vocabulary& v = *vocabulary_;
  std::string own = v.composes ? composed(text) : std::string(text);
  if (v.normalizer.any()) own = normalized(v.normalizer, own);
  const bool mark = marks_spaces(v);
  if (mark) replace_all(&own, " ", kSpaceMark);
  const std::string space(mark ? kSpaceMark : " ");
  const bool there = v.space_before != SpaceBefore::kEach && own.starts_with(space);
  if (space_before && !there) own.insert(0, space);
  return encode_words(own, out);
}

Result<void> Tokenizer::encode_words(std::string_view text, std::vector<Token>* out) const {
  if (patterns_.empty()) {
    words_->encode(text, out);
    return {};
  }
  std::u32string points;
  std::vector<std::uint32_t> offsets;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint c = first_code_point(text.substr(at));
    points.push_back(c.value);
    offsets.push_back(static_cast<std::uint32_t>(at));
    at += c.bytes;
  }
  offsets.push_back(static_cast<std::uint32_t>(text.size()));
  Spans words = {{0, points.size()}};
  for (std::size_t i = 0; i < patterns_.size(); ++i) {
    TESSERA_TRY(words, cut(points, words, patterns_[i], vocabulary_->splits[i]));
  }
  for (const auto& [begin, end] : words)
    words_->encode(text.substr(offsets[begin], offsets[end] - offsets[begin]), out);
  return {};
}

std::string_view Tokenizer::bytes(Token token) const {
  return token >= 0 && static_cast<std::size_t>(token) < bytes_.size()
             ? std::string_view(bytes_[static_cast<std::size_t>(token)])
             : std::string_view();
}

std::optional<Token> Tokenizer::find(std::string_view text) const {
  const auto it = names_->token.find(text);
  return it == names_->token.end() ? std::nullopt : std::optional(it->second);
}

bool Tokenizer::is_end(Token token) const {
  const std::vector<Token>& more = vocabulary_->also_end;
  return token == vocabulary_->end || std::find(more.begin(), more.end(), token) != more.end();
}

std::string Tokenizer::decode(std::span<const Token> tokens) const {
  TextStream stream(*this);
  std::string out;
  for (const Token token : tokens) out += stream.push(token);
  return out + stream.finish();
}

std::string TextStream::push(Token token) {
  std::string_view bytes = tokenizer_.bytes(token);
  if (bytes.empty()) return {};
  // The space that was read before the text; byte-level vocabularies keep it.
  const Vocabulary& v = tokenizer_.vocabulary();
  const bool drop = !started_ && ((v.space_before != SpaceBefore::kNever && marks_spaces(v)) ||
                                  v.algorithm == Algorithm::kWordPiece);
  if (drop && bytes[0] == ' ') bytes.remove_prefix(1);
  started_ = true;
  held_ += bytes;
  const std::size_t tail = incomplete_tail(held_);
  std::string out = valid_utf8(std::string_view(held_).substr(0, held_.size() - tail));
  held_.erase(0, held_.size() - tail);
  return out;
}

std::string TextStream::finish() {
  std::string out = valid_utf8(held_);
  held_.clear();
  return out;
}

}  // namespace tessera::tokenizer
