#include "tessera/app/generate/chat_tokens.h"

#include <optional>
#include <string>

namespace tessera::app {

using tokenizer::Token;

Result<ChatFormat> chat_format(const tokenizer::Tokenizer& tokenizer,
                               std::string_view chat_template) {
  if (chat_template.empty()) {
    return make_error(ErrorCode::kUnsupported,
                      "the model has no chat template; give the text as the prompt");
  }
  const tokenizer::Vocabulary& v = tokenizer.vocabulary();
  const auto name = [&](const std::optional<Token>& token) {
    return token ? v.tokens[static_cast<std::size_t>(*token)] : std::string();
  };
  return ChatFormat::recognise(chat_template, name(v.begin), name(v.end));
}

Result<std::vector<Token>> prompt_tokens(const tokenizer::Tokenizer& tokenizer,
                                         std::string_view prompt) {
  const tokenizer::Part part{prompt, true};
  TESSERA_TRY(std::vector<Token> out, tokenizer.encode(std::span(&part, 1)));
  const tokenizer::Vocabulary& v = tokenizer.vocabulary();
  if (v.add_begin && v.begin && out.size() > 1 && out[1] == *v.begin) out.erase(out.begin());
  return out;
}

Result<std::vector<Token>> chat_tokens(const tokenizer::Tokenizer& tokenizer,
                                       const ChatFormat& format, std::span<const ChatPart> parts,
                                       bool first) {
  std::vector<tokenizer::Part> texts;
  texts.reserve(parts.size());
  for (const ChatPart& part : parts) texts.push_back({part.text, part.control_tokens});
  TESSERA_TRY(std::vector<Token> out, tokenizer.encode(texts, false, !first));
  const tokenizer::Vocabulary& v = tokenizer.vocabulary();
  if (first && v.begin && (v.add_begin || format.begins_text())) out.insert(out.begin(), *v.begin);
  return out;
}

}  // namespace tessera::app
