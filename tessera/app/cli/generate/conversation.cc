#include "tessera/app/cli/generate/conversation.h"

#include "tessera/app/generate/gguf_vocabulary.h"
#include "tessera/support/invalid.h"

namespace tessera::cli {

Result<std::unique_ptr<TextModel>> TextModel::open(const std::string& path,
                                                   const app::DecoderOptions& options) {
  // A vocabulary that cannot be used is found before weights are packed.
  TESSERA_TRY(const gguf::File file, gguf::File::open(path));
  TESSERA_TRY(tokenizer::Vocabulary vocabulary, app::gguf_vocabulary(file));
  Result<tokenizer::Tokenizer> tokenizer = tokenizer::Tokenizer::make(std::move(vocabulary));
  if (!tokenizer.ok()) return tokenizer.error().with_context(path);
  TESSERA_TRY(app::Decoder decoder, app::Decoder::open(path, options));
  if (decoder.vocabulary() < static_cast<std::int64_t>(tokenizer->size())) {
    return invalid("{}: the model knows {} tokens, and its vocabulary has {}", path,
                   decoder.vocabulary(), tokenizer->size());
  }
  return std::unique_ptr<TextModel>(new TextModel(std::move(decoder), std::move(*tokenizer)));
}

Result<app::ChatFormat> TextModel::chat_format() const {
  const gguf::File& file = decoder_.file();
  TESSERA_TRY(const std::string_view text, file.text("tokenizer.chat_template", ""));
  if (text.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "{} has no chat template; give the text by --prompt without --chat",
                      file.name());
  }
  const tokenizer::Vocabulary& v = tokenizer_.vocabulary();
  const auto name = [&](const std::optional<tokenizer::Token>& token) {
    return token ? v.tokens[static_cast<std::size_t>(*token)] : std::string();
  };
  return app::ChatFormat::recognise(text, name(v.begin), name(v.end));
}

Result<std::vector<tokenizer::Token>> Conversation::ask(const std::string& user) {
  const bool first = tokens_.empty();
  const std::vector<app::ChatPart> chat = first ? format_.first(user, system_) : format_.next(user);
  std::vector<tokenizer::Part> parts;
  parts.reserve(chat.size());
  for (const app::ChatPart& part : chat) parts.push_back({part.text, part.control_tokens});
  TESSERA_TRY(const std::vector<tokenizer::Token> added, tokenizer_.encode(parts, false));
  const tokenizer::Vocabulary& v = tokenizer_.vocabulary();
  if (first && v.begin && (v.add_begin || format_.begins_text())) tokens_.push_back(*v.begin);
  tokens_.insert(tokens_.end(), added.begin(), added.end());
  return tokens_;
}

void Conversation::answer(const std::vector<tokenizer::Token>& tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

}  // namespace tessera::cli
