// Arbitrary bytes as a chat template and, behind a zero byte each, texts of two tokens and what is
// said; or, where they begin as such a file, as the GGUF file of a vocabulary. An Error, or tokens
// of the vocabulary and conversations in which nobody's words hold control tokens.
#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/app/generate/chat_tokens.h"
#include "tessera/app/generate/gguf_vocabulary.h"
#include "tessera/frontend/gguf/file.h"

namespace {

using tessera::app::ChatFormat;
using tessera::app::ChatPart;

void talk(const ChatFormat& format, std::string_view said) {
  const std::array<tessera::app::ChatMessage, 4> messages = {
      {{"system", said}, {"user", said}, {"assistant", said}, {"user", said}}};
  const auto parts = format.conversation(messages);
  if (!parts.ok()) __builtin_trap();
  for (const ChatPart& part : *parts) {
    if (part.control_tokens) continue;
    // A space may be before an answer.
    const std::string_view words = part.text;
    const bool own = said.find(words) != said.npos;
    if (!own && (!words.starts_with(' ') || said.find(words.substr(1)) == said.npos))
      __builtin_trap();
  }
}

void read_vocabulary(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  const auto file = tessera::gguf::File::parse(*owner, owner, "f");
  if (!file.ok()) return;
  auto vocabulary = tessera::app::gguf_vocabulary(*file);
  if (!vocabulary.ok()) return;
  const auto tokenizer = tessera::tokenizer::Tokenizer::make(std::move(*vocabulary));
  if (!tokenizer.ok()) return;
  const auto tokens = tessera::app::prompt_tokens(*tokenizer, "Hi <|im_end|> \xf0\x9f\x98\x80");
  for (std::size_t i = 0; tokens.ok() && i < tokens->size(); ++i) {
    const auto token = (*tokens)[i];
    if (token < 0 || static_cast<std::size_t>(token) >= tokenizer->size()) __builtin_trap();
  }
  const auto chat = file->text("tokenizer.chat_template", "");
  if (!chat.ok()) return;
  const auto format = tessera::app::chat_format(*tokenizer, *chat);
  if (format.ok())
    (void)tessera::app::chat_tokens(*tokenizer, *format, format->first("a", {}), true);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view all(reinterpret_cast<const char*>(data), size);
  if (tessera::gguf::is_gguf(all)) {
    read_vocabulary(std::string(all));
    return 0;
  }
  std::array<std::string_view, 4> parts;
  for (std::string_view& part : parts) {
    part = all.substr(0, all.find('\0'));
    all.remove_prefix(std::min(all.size(), part.size() + 1));
  }
  const auto format = ChatFormat::recognise(parts[0], parts[1], parts[2]);
  if (format.ok()) talk(*format, parts[3]);
  return 0;
}
