#include "tessera/app/capi/text.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/app/capi/status.h"
#include "tessera/app/generate/chat_tokens.h"
#include "tessera/app/generate/decoder.h"
#include "tessera/app/generate/model_text.h"
#include "tessera/app/generate/sampler.h"
#include "tessera/backend/kernel/kernel_cache.h"
#include "tessera/frontend/tokenizer/tokenizer.h"
#include "tessera/machine/target/target.h"

namespace tessera::capi {

struct ModelWords {
  tokenizer::Tokenizer tokenizer;
  std::string chat_template;
};
using Words = Result<std::shared_ptr<const ModelWords>>;

}  // namespace tessera::capi

struct tsr_text {
  tessera::app::Decoder decoder;
  tessera::capi::Words words;  // an error where a model computes, but its vocabulary cannot be used
  std::vector<std::int32_t> read;
  std::span<const float> logits;  // of the last step
  // Draws go on with the same options.
  tsr_sampling sampling{};
  std::optional<tessera::app::Sampler> sampler;
};

namespace tessera::capi {
namespace {

Words words_of(const std::string& path) {
  TESSERA_TRY(app::ModelText text, app::read_model_text(path));
  TESSERA_TRY(tokenizer::Tokenizer made, tokenizer::Tokenizer::make(std::move(text.vocabulary)));
  return std::make_shared<const ModelWords>(
      ModelWords{std::move(made), std::move(text.chat_template)});
}

std::string_view view(const char* bytes, std::size_t count) {
  return count > 0 ? std::string_view(bytes, count) : std::string_view();
}

// As many as there is room for.
Result<void> give(const std::vector<tokenizer::Token>& all, std::int32_t* tokens, std::size_t room,
                  std::size_t* result) {
  std::copy_n(all.begin(), std::min(room, all.size()), tokens);
  *result = all.size();
  return {};
}

Result<graph::Rounding> rounding_of(const char* activations) {
  const std::string_view said = activations ? activations : "int8";
  if (said == "int8") return graph::Rounding::kAlways;
  if (said == "float") return graph::Rounding::kNever;
  return make_error(ErrorCode::kInvalidArgument, "activations must be int8 or float, '{}' is",
                    said);
}

bool same(const tsr_sampling& a, const tsr_sampling& b) {
  return a.temperature == b.temperature && a.top_p == b.top_p && a.min_p == b.min_p &&
         a.repeat_penalty == b.repeat_penalty && a.top_k == b.top_k && a.seed == b.seed;
}

// Zero stands for what leaves all tokens as they are.
app::SamplerOptions sampler_options(const tsr_sampling& s) {
  return {.repeat_penalty = s.repeat_penalty == 0 ? 1 : s.repeat_penalty,
          .temperature = s.temperature,
          .top_k = s.top_k,
          .top_p = s.top_p == 0 ? 1 : s.top_p,
          .min_p = s.min_p,
          .seed = s.seed};
}

}  // namespace

tsr_status open_text(const char* model, const tsr_text_options* given, tsr_text** result) {
  return guarded([&]() -> Result<void> {
    if (!model || !result) return missing("model and result");
    *result = nullptr;
    TESSERA_TRY(const tsr_text_options options, copy_options(given));
    TESSERA_DO(refuse_negative("threads", options.threads));
    if (options.context < 0) {
      return make_error(ErrorCode::kInvalidArgument, "context must not be negative, but is {}",
                        options.context);
    }
    app::DecoderOptions how;
    how.compile.target = target::code_target(target::host(), options.threads);
    TESSERA_TRY(how.compile.rounding, rounding_of(options.activations));
    how.compile.cache = kernel::user_kernel_cache();
    how.capacity = options.context;
    TESSERA_TRY(app::Decoder decoder, app::Decoder::open(model, how));
    *result = new tsr_text{std::move(decoder), words_of(model), {}, {}, {}, {}};
    return {};
  });
}

tsr_status another_text(const tsr_text* text, tsr_text** result) {
  return guarded([&]() -> Result<void> {
    if (!text || !result) return missing("text and result");
    *result = nullptr;
    TESSERA_TRY(app::Decoder decoder, text->decoder.another());
    *result = new tsr_text{std::move(decoder), text->words, {}, {}, {}, {}};
    return {};
  });
}

void free_text(tsr_text* text) { delete text; }

tsr_status text_info(const tsr_text* text, tsr_text_info* info) {
  return guarded([&]() -> Result<void> {
    if (!text || !info) return missing("text and info");
    *info = {text->decoder.position(), text->decoder.capacity(), text->decoder.vocabulary()};
    return {};
  });
}

tsr_status encode(const tsr_text* text, const char* bytes, size_t count, int32_t* tokens,
                  size_t room, size_t* result) {
  return guarded([&]() -> Result<void> {
    if (!text || (!bytes && count > 0) || (!tokens && room > 0) || !result)
      return missing("text, bytes, tokens and result");
    *result = 0;
    if (!text->words.ok()) return text->words.error();
    TESSERA_TRY(const auto all, (*text->words)->tokenizer.encode(view(bytes, count)));
    return give(all, tokens, room, result);
  });
}

tsr_status encode_prompt(const tsr_text* text, const char* bytes, size_t count, int32_t* tokens,
                         size_t room, size_t* result) {
  return guarded([&]() -> Result<void> {
    if (!text || (!bytes && count > 0) || (!tokens && room > 0) || !result)
      return missing("text, bytes, tokens and result");
    *result = 0;
    if (!text->words.ok()) return text->words.error();
    TESSERA_TRY(const auto all, app::prompt_tokens((*text->words)->tokenizer, view(bytes, count)));
    return give(all, tokens, room, result);
  });
}

tsr_status encode_chat(const tsr_text* text, const tsr_message* messages, size_t num_messages,
                       int32_t* tokens, size_t room, size_t* result) {
  return guarded([&]() -> Result<void> {
    if (!text || (!messages && num_messages > 0) || (!tokens && room > 0) || !result)
      return missing("text, messages, tokens and result");
    *result = 0;
    if (!text->words.ok()) return text->words.error();
    std::vector<app::ChatMessage> said;
    for (std::size_t i = 0; i < num_messages; ++i) {
      const tsr_message& m = messages[i];
      if (!m.role || (!m.bytes && m.count > 0)) return missing("role and bytes");
      said.push_back({m.role, view(m.bytes, m.count)});
    }
    const ModelWords& words = **text->words;
    TESSERA_TRY(const app::ChatFormat format,
                app::chat_format(words.tokenizer, words.chat_template));
    TESSERA_TRY(const auto parts, format.conversation(said));
    TESSERA_TRY(const auto all, app::chat_tokens(words.tokenizer, format, parts, true));
    return give(all, tokens, room, result);
  });
}

tsr_status token_bytes(const tsr_text* text, int32_t token, const char** bytes, size_t* count,
                       int32_t* ends) {
  return guarded([&]() -> Result<void> {
    if (!text || !bytes || !count || !ends) return missing("text, bytes, count and ends");
    if (!text->words.ok()) return text->words.error();
    const std::string_view own = (*text->words)->tokenizer.bytes(token);
    *bytes = own.data();
    *count = own.size();
    *ends = (*text->words)->tokenizer.is_end(token) ? 1 : 0;
    return {};
  });
}

tsr_status step(tsr_text* text, const int32_t* tokens, size_t count, const float** logits) {
  return guarded([&]() -> Result<void> {
    if (!text || (!tokens && count > 0)) return missing("text and tokens");
    text->logits = {};
    TESSERA_TRY(text->logits, text->decoder.step({tokens, count}));
    text->read.insert(text->read.end(), tokens, tokens + count);
    if (logits) *logits = text->logits.data();
    return {};
  });
}

tsr_status rewind_text(tsr_text* text, int64_t position) {
  return guarded([&]() -> Result<void> {
    if (!text) return missing("text");
    if (position < 0 || position > text->decoder.position()) {
      return make_error(ErrorCode::kInvalidArgument, "position {} of {} tokens", position,
                        text->decoder.position());
    }
    text->decoder.rewind(position);
    text->read.resize(static_cast<std::size_t>(position));
    text->logits = {};
    text->sampler.reset();
    return {};
  });
}

tsr_status warm_up_text(tsr_text* text, int64_t tokens) {
  return guarded([&]() -> Result<void> {
    if (!text) return missing("text");
    text->logits = {};
    return text->decoder.warm_up(tokens);
  });
}

tsr_status pick(tsr_text* text, const tsr_sampling* given, int32_t* token) {
  return guarded([&]() -> Result<void> {
    if (!text || !token) return missing("text and token");
    if (text->logits.empty())
      return make_error(ErrorCode::kInvalidArgument, "no token was read since the text began");
    TESSERA_TRY(tsr_sampling options, copy_options(given));
    if (!text->sampler || !same(options, text->sampling)) {
      const app::SamplerOptions how = sampler_options(options);
      TESSERA_DO(app::check(how));
      text->sampler.emplace(how);
      text->sampling = options;
    }
    TESSERA_TRY(*token, text->sampler->pick(text->logits, text->read));
    return {};
  });
}

}  // namespace tessera::capi
