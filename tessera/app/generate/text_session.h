// A model that reads and writes text: prompts in, pieces of text out.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/app/generate/sampler.h"
#include "tessera/frontend/tokenizer/tokenizer.h"
#include "tessera/support/result.h"

namespace tessera::app {

// What a session needs of a model; `Decoder` is one.
class LanguageModel {
 public:
  virtual ~LanguageModel() = default;
  // Reads the tokens; logits of what comes behind the last one, valid until the next call.
  virtual Result<std::span<const float>> step(std::span<const tokenizer::Token> tokens) = 0;
  // Reads 1 to most_each() tokens; logits behind each of them, one row after the other.
  virtual Result<std::span<const float>> step_each(std::span<const tokenizer::Token> tokens) {
    return step(tokens);
  }
  virtual std::int64_t most_each() const { return 1; }
  // Forgets what was read behind the first `position` tokens.
  virtual void rewind(std::int64_t position) = 0;
  virtual std::int64_t capacity() const = 0;  // the most tokens that it remembers
};

struct TextOptions {
  SamplerOptions sampler;
  std::int64_t max_tokens = 0;  // 0: until the text ends or the capacity is used up
  std::vector<std::string> stops;
};

enum class TextEnd : std::uint8_t { kEnded, kStopString, kMaxTokens, kCapacity, kInterrupted };
const char* to_text(TextEnd end);  // "end", "stop", "length", "context", "interrupted"

struct TextResult {
  std::vector<tokenizer::Token> tokens;  // generated, without the one that ended the text
  std::string text;
  TextEnd end = TextEnd::kEnded;
  std::int64_t prompt_tokens = 0, reused_tokens = 0;  // of the prompt, those that were remembered
  std::int64_t guessed_tokens = 0, right_tokens = 0;  // read ahead, and those that came
  double prompt_s = 0, decode_s = 0;
};

class TextSession {
 public:
  // Both outlive it.
  TextSession(LanguageModel& model, const tokenizer::Tokenizer& tokenizer)
      : model_(model), tokenizer_(tokenizer) {}

  // Whole characters of the text as they come; and, now and then, whether to go on.
  using Emit = std::function<void(std::string_view text)>;
  using GoOn = std::function<bool()>;
  // The text behind the prompt. Where the model gives logits of several tokens at once, it reads
  // what may come next along with each token; this changes the time alone. What the model remembers
  // of its beginning from runs before is not read again. kInvalidArgument: no token, or more than
  // the model can remember.
  Result<TextResult> run(std::span<const tokenizer::Token> prompt, const TextOptions& options,
                         const Emit& emit, const GoOn& go_on);

  // What the model remembers; who restored its memory says here of what it is.
  const std::vector<tokenizer::Token>& remembered() const { return read_; }
  void remember(std::vector<tokenizer::Token> tokens) { read_ = std::move(tokens); }

 private:
  // Logits behind tokens that may come next, which the model has read already.
  struct Ahead {
    std::vector<tokenizer::Token> guess;
    std::size_t right = 0;          // of them that came
    std::span<const float> logits;  // a row more than there are tokens
  };
  Result<std::span<const float>> read(std::span<const tokenizer::Token> tokens, const GoOn& go_on,
                                      bool* interrupted);
  // The logits behind one more token of `text`, its last.
  Result<std::span<const float>> advance(std::span<const tokenizer::Token> text, std::int64_t most,
                                         Ahead* ahead, TextResult* out);

  LanguageModel& model_;
  const tokenizer::Tokenizer& tokenizer_;
  std::vector<tokenizer::Token> read_;  // what the model remembers
};

}  // namespace tessera::app
