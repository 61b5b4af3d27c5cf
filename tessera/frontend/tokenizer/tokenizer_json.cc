#include <algorithm>

#include <nlohmann/json.hpp>

#include "tessera/frontend/tokenizer/vocabulary.h"
#include "tessera/support/invalid.h"
#include "tessera/support/json_depth.h"

namespace tessera::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr std::int64_t kMostTokens = 4 << 20;
constexpr int kDeepest = 64;
constexpr const char* kSpaceMark = "\xe2\x96\x81";

template <class... Args>
Error unsupported(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kUnsupported, "tokenizer.json: {}",
                    fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
Error wrong(fmt::format_string<Args...> format, Args&&... args) {
  return invalid("tokenizer.json: {}", fmt::format(format, std::forward<Args>(args)...));
}

// A member of an object; null when there is none.
const Json& member(const Json& object, const char* name) {
  static const Json none;
  if (!object.is_object()) return none;
  const auto it = object.find(name);
  return it == object.end() ? none : *it;
}
std::string text_of(const Json& object, const char* name) {
  const Json& value = member(object, name);
  return value.is_string() ? value.get<std::string>() : std::string();
}
bool flag_of(const Json& object, const char* name, bool otherwise = false) {
  const Json& value = member(object, name);
  return value.is_boolean() ? value.get<bool>() : otherwise;
}

// A pattern that matches the text itself.
std::string literally(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool letter = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (static_cast<unsigned char>(c) < 0x80 && !letter && c >= ' ') out += '\\';
    out += c;
  }
  return out;
}

class JsonReader {
 public:
  Result<Vocabulary> read(const Json& file) {
    if (!file.is_object()) return wrong("it is not an object");
    const Json& model = member(file, "model");
    TESSERA_DO(read_model(model));
    TESSERA_DO(read_added(member(file, "added_tokens")));
    TESSERA_DO(read_normalizer(member(file, "normalizer")));
    TESSERA_DO(read_pre_tokenizer(member(file, "pre_tokenizer"), true));
    TESSERA_DO(read_post_processor(member(file, "post_processor")));
    if (out_.algorithm == Algorithm::kPieces && byte_level_) out_.algorithm = Algorithm::kBytePairs;
    const bool pieces = out_.algorithm == Algorithm::kWordPiece;
    if (pieces && (byte_level_ || marks_spaces_))
      return unsupported("a byte-level vocabulary of type WordPiece, or one that marks spaces");
    if (!pieces && byte_level_ == marks_spaces_) {
      return unsupported("a vocabulary that {}", byte_level_
                                                     ? "is byte-level and marks spaces"
                                                     : "neither is byte-level nor marks spaces");
    }
    if (byte_level_ && out_.algorithm == Algorithm::kUnigram)
      return unsupported("a byte-level vocabulary of type Unigram");
    TESSERA_DO(finish_tokens());
    return std::move(out_);
  }

 private:
  Result<void> set_token(const Json& id, std::string text, TokenKind kind) {
    if (!id.is_number_integer() || id.get<std::int64_t>() < 0 ||
        id.get<std::int64_t>() >= kMostTokens) {
      return wrong("the token '{}' has the number {}", text, id.dump());
    }
    const auto at = id.get<std::size_t>();
    if (at >= out_.tokens.size()) {
      out_.tokens.resize(at + 1);
      out_.kinds.resize(at + 1, TokenKind::kUnused);
      known_.resize(at + 1);
    }
    if (known_[at] && out_.tokens[at] != text)
      return wrong("the tokens '{}' and '{}' have the same number", out_.tokens[at], text);
    out_.tokens[at] = std::move(text);
    out_.kinds[at] = kind;
    known_[at] = true;
    return {};
  }

  Result<void> finish_tokens() {
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (!known_[i]) return wrong("no token has the number {}", i);
    if (!out_.scores.empty()) {
      if (out_.scores.size() > out_.tokens.size()) return wrong("more scores than tokens");
      out_.scores.resize(out_.tokens.size());
    }
    TESSERA_TRY(out_.unknown, number_of(unknown_));
    return {};
  }

  Result<std::optional<Token>> number_of(const std::string& text) const {
    if (text.empty()) return std::optional<Token>();
    const auto it = std::find(out_.tokens.begin(), out_.tokens.end(), text);
    if (it == out_.tokens.end()) return wrong("it has no token '{}', which it gives a role", text);
    return std::optional<Token>(static_cast<Token>(it - out_.tokens.begin()));
  }

  Result<void> read_model(const Json& model) {
    const std::string type = text_of(model, "type");
    // Files of old versions name no type.
    const bool pairs = type == "BPE" || (type.empty() && member(model, "merges").is_array());
    out_.bytes_for_unknown = flag_of(model, "byte_fallback");
    if (type == "Unigram") return read_unigram(model);
    if (type == "WordPiece") return read_word_piece(model);
    if (!pairs) return unsupported("models of type '{}'", type);
    out_.algorithm = Algorithm::kPieces;
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_of(model, name).empty()) return unsupported("model.{}", name);
    if (member(model, "dropout").is_number() && member(model, "dropout").get<double>() > 0)
      return unsupported("model.dropout");
    out_.whole_words = flag_of(model, "ignore_merges");
    out_.fuse_unknown = flag_of(model, "fuse_unk");
    unknown_ = text_of(model, "unk_token");
    TESSERA_DO(read_vocabulary(member(model, "vocab")));
    return read_merges(member(model, "merges"));
  }

  Result<void> read_vocabulary(const Json& vocab) {
    if (!vocab.is_object()) return wrong("model.vocab is not an object");
    for (const auto& [text, id] : vocab.items())
      TESSERA_DO(set_token(id, text, TokenKind::kNormal));
    return {};
  }

  Result<void> read_word_piece(const Json& model) {
    out_.algorithm = Algorithm::kWordPiece;
    unknown_ = text_of(model, "unk_token");
    out_.word_prefix = text_of(model, "continuing_subword_prefix");
    const Json& most = member(model, "max_input_chars_per_word");
    if (most.is_number_unsigned()) out_.most_characters = most.get<std::size_t>();
    return read_vocabulary(member(model, "vocab"));
  }

  Result<void> read_merges(const Json& merges) {
    if (!merges.is_array()) return wrong("model.merges is not an array");
    for (const Json& merge : merges) {
      if (merge.is_string()) {
        out_.merges.push_back(merge.get<std::string>());
        continue;
      }
      if (!merge.is_array() || merge.size() != 2 || !merge[0].is_string() || !merge[1].is_string())
        return wrong("a merge is neither a text nor two: {}", merge.dump());
      const auto left = merge[0].get<std::string>(), right = merge[1].get<std::string>();
      if ((left + right).find(' ') != std::string::npos)
        return unsupported("the merge of '{}' and '{}', which have spaces", left, right);
      out_.merges.push_back(fmt::format("{} {}", left, right));
    }
    return {};
  }

  Result<void> read_unigram(const Json& model) {
    out_.algorithm = Algorithm::kUnigram;
    out_.fuse_unknown = true;
    const Json& vocab = member(model, "vocab");
    if (!vocab.is_array()) return wrong("model.vocab is not an array");
    for (const Json& entry : vocab) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        return wrong("a token of the vocabulary is not a text with a score: {}", entry.dump());
      TESSERA_DO(
          set_token(Json(out_.tokens.size()), entry[0].get<std::string>(), TokenKind::kNormal));
      out_.scores.push_back(entry[1].get<double>());
    }
    const Json& unknown = member(model, "unk_id");
    if (!unknown.is_number_unsigned()) return {};
    if (unknown.get<std::size_t>() >= out_.tokens.size())
      return wrong("model.unk_id is {}", unknown.dump());
    unknown_ = out_.tokens[unknown.get<std::size_t>()];
    out_.kinds[unknown.get<std::size_t>()] = TokenKind::kUnused;
    return {};
  }

  Result<void> read_added(const Json& added) {
    if (!added.is_array()) return {};
    for (const Json& token : added) {
      const std::string text = text_of(token, "content");
      const bool special = flag_of(token, "special");
      if (flag_of(token, "single_word"))
        return unsupported("the added token '{}', which is one only between words", text);
      TESSERA_DO(set_token(member(token, "id"), text,
                           special ? TokenKind::kControl : TokenKind::kUserDefined));
      const auto id = member(token, "id").get<Token>();
      if (flag_of(token, "lstrip")) out_.takes_spaces_before.push_back(id);
      if (flag_of(token, "rstrip")) out_.takes_spaces_behind.push_back(id);
    }
    return {};
  }

  Result<void> read_normalizer(const Json& normalizer) {
    if (normalizer.is_null()) return {};
    const std::string type = text_of(normalizer, "type");
    if (type == "Sequence") {
      for (const Json& each : member(normalizer, "normalizers")) TESSERA_DO(read_normalizer(each));
      return {};
    }
    if (type == "NFC") {
      // What an earlier step left is not composed again.
      if (marks_spaces_ || out_.space_before != SpaceBefore::kNever || out_.normalizer.any())
        return unsupported("the normalizer NFC behind others");
      out_.composes = true;
      return {};
    }
    if (type == "BertNormalizer") {
      BertNormalizer& how = out_.normalizer;
      how.clean = flag_of(normalizer, "clean_text", true);
      how.apart = flag_of(normalizer, "handle_chinese_chars", true);
      how.lower_case = flag_of(normalizer, "lowercase", true);
      how.strip_accents = flag_of(normalizer, "strip_accents", how.lower_case);
      return {};
    }
    if (type == "Prepend" && text_of(normalizer, "prepend") == kSpaceMark) {
      out_.space_before = SpaceBefore::kEach;
      return {};
    }
    const Json& pattern = member(normalizer, "pattern");
    if (type == "Replace" && text_of(pattern, "String") == " " &&
        text_of(normalizer, "content") == kSpaceMark) {
      marks_spaces_ = true;
      return {};
    }
    return unsupported("the normalizer {}", normalizer.dump().substr(0, 80));
  }

  Result<void> read_pre_tokenizer(const Json& step, bool alone) {
    if (step.is_null()) return {};
    const std::string type = text_of(step, "type");
    if (type == "Sequence") {
      const Json& steps = member(step, "pretokenizers");
      for (const Json& each : steps) TESSERA_DO(read_pre_tokenizer(each, steps.size() == 1));
      return {};
    }
    if (type == "Digits") {
      out_.splits.push_back({flag_of(step, "individual_digits") ? R"(\p{N})" : R"(\p{N}+)"});
      return {};
    }
    if (type == "BertPreTokenizer") {
      out_.splits.push_back({R"(\s+)", true});
      out_.splits.push_back({R"([!-/:-@\[-`{-~\p{P}])"});
      return {};
    }
    if (type == "ByteLevel") return read_byte_level(step, alone);
    if (type == "Metaspace") return read_metaspace(step, alone);
    if (type == "Split") return read_split(step);
    return unsupported("the pre-tokenizer {}", step.dump().substr(0, 80));
  }

  Result<void> read_byte_level(const Json& step, bool alone) {
    byte_level_ = true;
    if (flag_of(step, "add_prefix_space", true)) {
      if (!alone) return unsupported("add_prefix_space beside other pre-tokenizers");
      out_.space_before = SpaceBefore::kEachUnlessThere;
    }
    if (flag_of(step, "use_regex", true)) out_.splits.push_back({kGpt2Pattern});
    return {};
  }

  Result<void> read_metaspace(const Json& step, bool alone) {
    if (!alone || text_of(step, "replacement") != kSpaceMark)
      return unsupported("the pre-tokenizer {}", step.dump().substr(0, 80));
    marks_spaces_ = true;
    const std::string scheme = text_of(step, "prepend_scheme");
    if (scheme == "first") {
      out_.space_before = SpaceBefore::kFirstUnlessThere;
    } else if (scheme == "always" || (scheme.empty() && flag_of(step, "add_prefix_space", true))) {
      out_.space_before = SpaceBefore::kEachUnlessThere;
    }
    if (flag_of(step, "split", true)) {
      out_.splits.push_back({fmt::format("{}[^{}]*", kSpaceMark, kSpaceMark)});
    }
    return {};
  }

  Result<void> read_split(const Json& step) {
    const std::string behaviour = text_of(step, "behavior");
    const Json& pattern = member(step, "pattern");
    const std::string text = text_of(pattern, "String");
    if (marks_spaces_ && text == " ") return {};  // no space is left
    const std::string regex = text.empty() ? text_of(pattern, "Regex") : literally(text);
    const bool drop = behaviour == "Removed";
    if (regex.empty() || flag_of(step, "invert") || (!drop && behaviour != "Isolated"))
      return unsupported("the pre-tokenizer {}", step.dump().substr(0, 80));
    out_.splits.push_back({regex, drop});
    return {};
  }

  // ["[CLS]", 101]
  Result<std::optional<Token>> named_by(const Json& pair) const {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_string())
      return wrong("a token with a role is not a text with a number: {}", pair.dump());
    return number_of(pair[0].get<std::string>());
  }

  Result<void> read_post_processor(const Json& step) {
    if (step.is_null()) return {};
    const std::string type = text_of(step, "type");
    if (type == "ByteLevel") return {};
    if (type == "BertProcessing") {
      TESSERA_TRY(out_.begin, named_by(member(step, "cls")));
      TESSERA_TRY(out_.end, named_by(member(step, "sep")));
      out_.add_begin = out_.add_end = true;
      return {};
    }
    if (type == "Sequence") {
      for (const Json& each : member(step, "processors")) TESSERA_DO(read_post_processor(each));
      return {};
    }
    if (type != "TemplateProcessing")
      return unsupported("the post-processor {}", step.dump().substr(0, 80));
    bool behind = false;
    for (const Json& part : member(step, "single")) {
      const std::string special = text_of(member(part, "SpecialToken"), "id");
      if (special.empty()) {
        behind = true;
        continue;
      }
      std::optional<Token>& role = behind ? out_.end : out_.begin;
      bool& added = behind ? out_.add_end : out_.add_begin;
      if (added) return unsupported("more than one token before or behind a text");
      TESSERA_TRY(role, number_of(special));
      added = true;
    }
    return {};
  }

  Vocabulary out_;
  std::vector<bool> known_;
  std::string unknown_;
  bool byte_level_ = false, marks_spaces_ = false;
};

}  // namespace

Result<Vocabulary> parse_tokenizer_json(std::string_view text) {
  if (is_deeper_than(text, kDeepest)) return wrong("it is nested more than {} deep", kDeepest);
  const Json file = Json::parse(text, nullptr, false);
  if (file.is_discarded()) return wrong("it is not JSON");
  return JsonReader().read(file);
}

}  // namespace tessera::tokenizer
