// Tiny decoders whose vocabulary is bytes and the marks of a chat.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/frontend/tokenizer/word_encoder.h"
#include "tests/generate/tiny_decoder.h"

namespace tessera::app::testing {

inline constexpr const char* kChatTemplate = "<|im_start|>role\ncontent<|im_end|>";

// Bytes, and the marks of a chat; the model ends by one of these or `end`, or, where it is
// `endless`, never.
inline TinyDecoder byte_model(const std::string& chat_template = kChatTemplate,
                              std::uint32_t end = 257, bool endless = false) {
  TinyDecoder d;
  d.words = 258;
  d.metadata = [=](gguf::testing::Writer& w) {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) {
      tokenizer::append_utf8(&tokens.emplace_back(),
                             tokenizer::character_of_byte(static_cast<unsigned char>(b)));
    }
    tokens.insert(tokens.end(), {"<|im_start|>", "<|im_end|>"});
    gguf::testing::Bytes kinds;
    kinds.add<std::uint32_t>(5).add<std::uint64_t>(tokens.size());
    for (std::size_t i = 0; i < tokens.size(); ++i)
      kinds.add<std::int32_t>(i < 256 || endless ? 1 : 3);
    w.text("tokenizer.ggml.model", "gpt2").text("tokenizer.ggml.pre", "gpt-2");
    w.texts("tokenizer.ggml.tokens", tokens).entry("tokenizer.ggml.token_type", 9, kinds.str());
    w.texts("tokenizer.ggml.merges", {});
    if (!endless) w.integer("tokenizer.ggml.eos_token_id", end);
    if (!chat_template.empty()) w.text("tokenizer.chat_template", chat_template);
  };
  return d;
}

}  // namespace tessera::app::testing
