#include "tessera/app/cli/bench/perplexity.h"

#include <algorithm>
#include <memory>
#include <optional>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/common/model_args.h"
#include "tessera/app/cli/generate/conversation.h"
#include "tessera/app/generate/perplexity.h"
#include "tessera/frontend/tokenizer/unicode.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"
#include "tessera/support/invalid.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using tokenizer::Token;

// Tokens whose logits are computed at once.
constexpr std::int64_t kAtOnce = 32;
constexpr const char* kExact = "exact";

Result<std::unique_ptr<TextModel>> open_with(const std::string& path,
                                             const std::string& activations,
                                             const PerplexityArgs& args) {
  TESSERA_TRY(app::DecoderOptions options,
              decoder_options(args.threads, args.no_cache, 0, activations));
  options.each = kAtOnce;
  return TextModel::open(path, options);
}

// Without the tokens that the vocabulary wants around a text.
Result<std::vector<Token>> tokens_of(const TextModel& model, const std::string& text,
                                     std::int64_t most) {
  TESSERA_TRY(std::vector<Token> out, model.tokenizer().encode(text, false));
  if (std::ssize(out) > most) out.resize(static_cast<std::size_t>(most));
  return out;
}

std::optional<Token> begin_of(const TextModel& model) {
  const tokenizer::Vocabulary& v = model.tokenizer().vocabulary();
  return v.add_begin ? v.begin : std::nullopt;
}

Result<app::Perplexity> measure_text(const std::string& path, const PerplexityArgs& args) {
  TESSERA_TRY(const std::string text, read_file(args.file));
  if (text.empty()) return invalid("{} is empty", args.file);
  if (tokenizer::valid_utf8(text) != text) return invalid("{} is not UTF-8", args.file);
  TESSERA_TRY(const std::unique_ptr<TextModel> model, open_with(path, args.activations, args));
  TESSERA_TRY(const std::vector<Token> tokens, tokens_of(*model, text, args.tokens));
  if (tokens.size() < 2) {
    return invalid("{}: the text has {} of the two tokens needed", args.file, tokens.size());
  }
  std::unique_ptr<TextModel> other;
  if (!args.against.empty()) {
    const bool exact = args.against == kExact;
    TESSERA_TRY(other, exact ? open_with(path, "float", args)
                             : open_with(args.against, args.activations, args));
    TESSERA_TRY(const std::vector<Token> others, tokens_of(*other, text, args.tokens));
    const bool same =
        others == tokens && begin_of(*other) == begin_of(*model) &&
        other->tokenizer().vocabulary().tokens == model->tokenizer().vocabulary().tokens;
    if (!same) return invalid("{} and {} have different tokenizers", path, args.against);
  }
  for (TextModel* each : {model.get(), other.get()}) {
    if (each == nullptr) continue;
    TESSERA_DO(each->decoder().warm_up(std::min(each->capacity(), std::ssize(tokens))));
  }
  return app::perplexity(*model, other.get(), tokens, begin_of(*model));
}

void print_perplexity(const std::string& model, const PerplexityArgs& args,
                      const app::Perplexity& p) {
  fmt::print("{}: perplexity {:.4f} over {}\n", model, p.value, counted(p.tokens, "token"));
  if (!p.beside) return;
  fmt::print("{}: perplexity {:.4f}; ratio {:.5f}\n", args.against, p.beside->value,
             p.value / p.beside->value);
  fmt::print("same likeliest token {:.2f} %, mean KL divergence {:.3g}\n",
             100 * p.beside->same_likeliest, p.beside->divergence);
}

}  // namespace

int bench_perplexity(const std::string& model, const PerplexityArgs& args) {
  const Result<app::Perplexity> p = measure_text(model, args);
  if (!p.ok()) return report_model(p.error());
  if (!args.json) {
    print_perplexity(model, args, *p);
    return kOk;
  }
  Json j = {{"model", model}, {"text", args.file}, {"tokens", p->tokens}, {"perplexity", p->value}};
  if (p->beside) {
    j["against"] = {{"model", args.against},
                    {"perplexity", p->beside->value},
                    {"perplexity_ratio", p->value / p->beside->value},
                    {"same_likeliest", p->beside->same_likeliest},
                    {"mean_kl", p->beside->divergence}};
  }
  print_json(j);
  return kOk;
}

}  // namespace tessera::cli
