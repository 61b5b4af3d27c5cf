#include "tessera/app/generate/gguf_vocabulary.h"

#include <algorithm>
#include <set>

#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

using tokenizer::Algorithm;
using tokenizer::SpaceBefore;
using tokenizer::Token;
using tokenizer::TokenKind;
using tokenizer::Vocabulary;

std::string key(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

bool ends_by_name(std::string_view text) {
  static const std::set<std::string_view> ends = {
      "<|eot_id|>", "<|im_end|>", "<|end|>",         "<end_of_turn>", "<|endoftext|>",
      "<|eom_id|>", "<EOT>",      "<|end_of_text|>", "<turn|>",       "</s>"};
  return ends.contains(text);
}

Result<void> read_tokens(const gguf::File& file, Vocabulary* v) {
  TESSERA_TRY(const auto tokens, file.texts(key("tokens")));
  v->tokens.assign(tokens.begin(), tokens.end());
  if (file.has(key("token_type"))) {
    TESSERA_TRY(const auto kinds, file.integers(key("token_type")));
    for (const std::int64_t kind : kinds) {
      // 0 is undefined, and what some writers give plain tokens.
      if (kind < 0 || kind > 6)
        return invalid("{}: {} has the kind {}", file.name(), key("token_type"), kind);
      v->kinds.push_back(kind == 0 ? TokenKind::kNormal : static_cast<TokenKind>(kind));
    }
  }
  if (file.has(key("scores"))) {
    TESSERA_TRY(const auto scores, file.numbers(key("scores")));
    v->scores.assign(scores.begin(), scores.end());
  }
  if (file.has(key("merges"))) {
    TESSERA_TRY(const auto merges, file.texts(key("merges")));
    v->merges.assign(merges.begin(), merges.end());
  }
  return {};
}

Result<std::optional<Token>> role(const gguf::File& file, std::string_view name,
                                  const Vocabulary& v) {
  if (!file.has(key(name))) return std::optional<Token>();
  TESSERA_TRY(const std::int64_t id, file.integer(key(name)));
  // What stands for none: -1 as a number without a sign.
  if (id == 0xffffffff || id == -1) return std::optional<Token>();
  if (id < 0 || id >= static_cast<std::int64_t>(v.tokens.size())) {
    return invalid("{}: {} is {}, but there are {} tokens", file.name(), key(name), id,
                   v.tokens.size());
  }
  return std::optional<Token>(static_cast<Token>(id));
}

Result<void> read_roles(const gguf::File& file, Vocabulary* v) {
  TESSERA_TRY(v->begin, role(file, "bos_token_id", *v));
  TESSERA_TRY(v->end, role(file, "eos_token_id", *v));
  TESSERA_TRY(v->unknown, role(file, "unknown_token_id", *v));
  TESSERA_TRY(v->padding, role(file, "padding_token_id", *v));
  for (const char* name : {"eot_token_id", "eom_token_id"}) {
    TESSERA_TRY(const std::optional<Token> id, role(file, name, *v));
    if (id) v->also_end.push_back(*id);
  }
  add_ends_by_name(v);
  return {};
}

}  // namespace

void add_ends_by_name(Vocabulary* v) {
  for (std::size_t i = 0; i < std::min(v->kinds.size(), v->tokens.size()); ++i) {
    const bool marks = v->kinds[i] == TokenKind::kControl || v->kinds[i] == TokenKind::kUserDefined;
    if (!marks || !ends_by_name(v->tokens[i])) continue;
    // Some writers take those for user-defined ones, with which a user's words could end a turn.
    v->kinds[i] = TokenKind::kControl;
    v->also_end.push_back(static_cast<Token>(i));
  }
}

Result<Vocabulary> gguf_vocabulary(const gguf::File& file) {
  Vocabulary v;
  TESSERA_TRY(const std::string_view model, file.text(key("model")));
  TESSERA_DO(read_tokens(file, &v));
  TESSERA_DO(read_roles(file, &v));
  bool begins = false, space = false;  // where the file does not say
  if (model == "gpt2") {
    v.algorithm = Algorithm::kBytePairs;
    TESSERA_TRY(const std::string_view pre, file.text(key("pre"), "gpt-2"));
    Result<tokenizer::NamedSplits> named = tokenizer::splits_named(pre);
    if (!named.ok()) return named.error().with_context(file.name());
    v.splits = std::move(named->splits);
    v.whole_words = named->whole_words;
    // Often that of the end: a byte without a token is left out, as where such files come from.
    v.unknown.reset();
    begins = v.whole_words;  // the same vocabularies, where such files come from
  } else if (model == "llama" || model == "t5") {
    v.algorithm = model == "llama" ? Algorithm::kPieces : Algorithm::kUnigram;
    v.bytes_for_unknown = true;
    begins = space = model == "llama";
    if (v.scores.empty()) return invalid("{}: {} is missing", file.name(), key("scores"));
    v.merges.clear();  // the scores say them
  } else {
    return make_error(ErrorCode::kUnsupported,
                      "{}: tokenizer.ggml.model '{}' is not supported; gpt2, llama and t5 are",
                      file.name(), model);
  }
  TESSERA_TRY(v.add_begin, file.flag(key("add_bos_token"), begins));
  TESSERA_TRY(v.add_end, file.flag(key("add_eos_token"), false));
  TESSERA_TRY(const bool prefix, file.flag(key("add_space_prefix"), space));
  if (prefix && model != "gpt2") v.space_before = SpaceBefore::kEach;
  return v;
}

}  // namespace tessera::app
