#include "tessera/app/generate/text_session.h"

#include <algorithm>

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
    TESSERA_TRY(logits, read(std::span(&token, 1), go_on, &interrupted));
  }
  if (!stops.stopped()) {
    give(stops.push(stream.finish()));
    give(stops.finish());
  }
  out.decode_s = seconds_since(begin);
  return out;
}

}  // namespace tessera::app
