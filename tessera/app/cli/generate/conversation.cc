#include "tessera/app/cli/generate/conversation.h"

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/common/progress.h"
#include "tessera/app/generate/chat_tokens.h"
#include "tessera/app/generate/model_text.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/invalid.h"

namespace tessera::cli {

Result<app::DecoderOptions> decoder_options(int threads, bool no_cache, std::int64_t context,
                                            const std::string& activations) {
  app::DecoderOptions out;
  TESSERA_TRY(const target::Target machine, runtime::resolve_target("host"));
  out.compile.target = target::code_target(machine, threads);
  TESSERA_TRY(out.compile.rounding, rounding_of(activations));
  out.compile.cache = kernel_cache(no_cache);
  out.compile.progress = build_progress();
  out.capacity = context;
  return out;
}

Result<std::unique_ptr<TextModel>> TextModel::open(const std::string& path,
                                                   const app::DecoderOptions& options) {
  TESSERA_TRY(app::Decoder decoder, app::Decoder::open(path, options));
  // A vocabulary that cannot be used is found before weights are packed, by the first step.
  TESSERA_TRY(app::ModelText text, app::read_model_text(path));
  Result<tokenizer::Tokenizer> tokenizer = tokenizer::Tokenizer::make(std::move(text.vocabulary));
  if (!tokenizer.ok()) return tokenizer.error().with_context(path);
  if (decoder.vocabulary() < static_cast<std::int64_t>(tokenizer->size())) {
    return invalid("{}: the model knows {} tokens, and its vocabulary has {}", path,
                   decoder.vocabulary(), tokenizer->size());
  }
  return std::unique_ptr<TextModel>(
      new TextModel(std::move(decoder), std::move(*tokenizer), std::move(text.chat_template)));
}

Result<app::ChatFormat> TextModel::chat_format() const {
  auto out = app::chat_format(tokenizer_, chat_template_);
  if (!out.ok()) return out.error().with_context(decoder_.file().name());
  return out;
}

}  // namespace tessera::cli
