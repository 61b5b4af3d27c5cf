#include "tessera/app/generate/text_session.h"

#include <algorithm>

#include "tessera/app/generate/lookup.h"
#include "tessera/app/generate/stop_strings.h"
#include "tessera/support/clock.h"
#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

using tokenizer::Token;

// A prompt is read in parts of so many tokens, so that it can be interrupted.
constexpr std::size_t kPart = 256;

}  // namespace

const char* to_text(TextEnd end) {
  switch (end) {
    case TextEnd::kEnded:
      return "end";
    case TextEnd::kStopString:
      return "stop";
    case TextEnd::kMaxTokens:
      return "length";
    case TextEnd::kCapacity:
      return "context";
    case TextEnd::kInterrupted:
      break;
  }
  return "interrupted";
}

Result<std::span<const float>> TextSession::read(std::span<const Token> tokens, const GoOn& go_on,
                                                 bool* interrupted) {
  std::span<const float> logits;
  for (std::size_t at = 0; at < tokens.size(); at += kPart) {
    if (at > 0 && !go_on()) {
      *interrupted = true;
      return logits;
    }
    const auto part = tokens.subspan(at, std::min(kPart, tokens.size() - at));
    TESSERA_TRY(logits, model_.step(part));
    read_.insert(read_.end(), part.begin(), part.end());
  }
  return logits;
}

Result<std::span<const float>> TextSession::advance(std::span<const Token> text, std::int64_t most,
                                                    Ahead* ahead, TextResult* out) {
  const Token token = text.back();
  if (ahead->right < ahead->guess.size() && ahead->guess[ahead->right] == token) {
    read_.push_back(token);
    ++ahead->right;
    ++out->right_tokens;
    const std::size_t row = ahead->logits.size() / (ahead->guess.size() + 1);
    return ahead->logits.subspan(ahead->right * row, row);
  }
  if (ahead->right < ahead->guess.size()) model_.rewind(std::ssize(read_));
  const std::int64_t room = model_.capacity() - std::ssize(read_) - 1;
  const std::int64_t guesses = std::min({model_.most_each() - 1, room, most});
  ahead->guess = looked_up(text, static_cast<std::size_t>(std::max<std::int64_t>(guesses, 0)));
  ahead->right = 0;
  std::vector<Token> tokens = {token};
  tokens.insert(tokens.end(), ahead->guess.begin(), ahead->guess.end());
  out->guessed_tokens += std::ssize(ahead->guess);
  TESSERA_TRY(ahead->logits, tokens.size() == 1 ? model_.step(tokens) : model_.step_each(tokens));
  read_.push_back(token);
  return ahead->logits.first(ahead->logits.size() / tokens.size());
}

Result<TextResult> TextSession::run(std::span<const Token> prompt, const TextOptions& options,
                                    const Emit& emit, const GoOn& go_on) {
  if (prompt.empty()) return invalid("the prompt has no token");
  const auto capacity = static_cast<std::size_t>(model_.capacity());
  if (prompt.size() > capacity) {
    return invalid("the prompt has {} tokens, and the context holds {}; --context sets it",
                   prompt.size(), capacity);
  }
  TESSERA_DO(check(options.sampler));
  TextResult out;
  out.prompt_tokens = static_cast<std::int64_t>(prompt.size());
  // The last token is read again in any case: its logits are needed.
  const auto same = std::mismatch(prompt.begin(), prompt.end() - 1, read_.begin(), read_.end());
  const auto kept = same.first - prompt.begin();
  out.reused_tokens = kept;
  read_.resize(static_cast<std::size_t>(kept));
  model_.rewind(kept);

  Clock::time_point begin = Clock::now();
  bool interrupted = false;
  TESSERA_TRY(std::span<const float> logits,
              read(prompt.subspan(static_cast<std::size_t>(kept)), go_on, &interrupted));
  out.prompt_s = seconds_since(begin);

  begin = Clock::now();
  Sampler sampler(options.sampler);
  std::vector<Token> before(prompt.begin(), prompt.end());
  tokenizer::TextStream stream(tokenizer_, true);
  StopStrings stops(options.stops);
  Ahead ahead;
  const auto give = [&](const std::string& text) {
    if (text.empty()) return;
    out.text += text;
    emit(text);
  };
  while (true) {
    if (interrupted || !go_on()) {
      out.end = TextEnd::kInterrupted;
      break;
    }
    if (options.max_tokens > 0 && std::ssize(out.tokens) == options.max_tokens) {
      out.end = TextEnd::kMaxTokens;
      break;
    }
    TESSERA_TRY(const Token token, sampler.pick(logits, before));
    if (tokenizer_.is_end(token)) break;
    out.tokens.push_back(token);
    before.push_back(token);
    give(stops.push(stream.push(token)));
    if (stops.stopped()) {
      out.end = TextEnd::kStopString;
      break;
    }
    const bool last = std::ssize(out.tokens) == options.max_tokens;
    if (last) continue;  // nobody asks for what would follow
    if (read_.size() == capacity) {
      out.end = TextEnd::kCapacity;
      break;
    }
    const std::int64_t left =
        options.max_tokens > 0 ? options.max_tokens - std::ssize(out.tokens) : model_.capacity();
    TESSERA_TRY(logits, advance(before, left - 1, &ahead, &out));
  }
  if (!stops.stopped()) {
    give(stops.push(stream.finish()));
    give(stops.finish());
  }
  out.decode_s = seconds_since(begin);
  model_.rewind(std::ssize(read_));  // without what was guessed wrong
  return out;
}

}  // namespace tessera::app
