// A model with its vocabulary and chat format.
#pragma once

#include <memory>
#include <string>

#include "tessera/app/generate/chat.h"
#include "tessera/app/generate/decoder.h"
#include "tessera/app/generate/text_session.h"
#include "tessera/frontend/tokenizer/tokenizer.h"

namespace tessera::cli {

// For this machine. 0 threads: as many as are best; 0 tokens of context: as DecoderOptions says.
// `activations` as --activations has it.
Result<app::DecoderOptions> decoder_options(int threads, bool no_cache, std::int64_t context,
                                            const std::string& activations);

// The decoder of a file or folder as sessions see it.
class TextModel final : public app::LanguageModel {
 public:
  static Result<std::unique_ptr<TextModel>> open(const std::string& path,
                                                 const app::DecoderOptions& options);

  Result<std::span<const float>> step(std::span<const tokenizer::Token> tokens) override {
    return decoder_.step(tokens);
  }
  Result<std::span<const float>> step_each(std::span<const tokenizer::Token> tokens) override {
    return decoder_.step_each(tokens);
  }
  std::int64_t most_each() const override { return decoder_.each(); }
  void rewind(std::int64_t position) override { decoder_.rewind(position); }
  std::int64_t capacity() const override { return decoder_.capacity(); }

  app::Decoder& decoder() { return decoder_; }
  const tokenizer::Tokenizer& tokenizer() const { return tokenizer_; }
  // kUnsupported: the file has no template, or one of no known family.
  Result<app::ChatFormat> chat_format() const;

 private:
  TextModel(app::Decoder decoder, tokenizer::Tokenizer tokenizer, std::string chat_template)
      : decoder_(std::move(decoder)),
        tokenizer_(std::move(tokenizer)),
        chat_template_(std::move(chat_template)) {}

  app::Decoder decoder_;
  tokenizer::Tokenizer tokenizer_;
  std::string chat_template_;
};

}  // namespace tessera::cli
