// Arbitrary bytes as a tokenizer.json and, behind a zero byte, a text: an Error, or tokens of the
// vocabulary; byte-level ones give the text back.
#include <cstdint>
#include <string_view>

#include "tessera/frontend/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;             // NOLINT(google-build-using-namespace)
  using namespace tessera::tokenizer;  // NOLINT(google-build-using-namespace)
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::size_t zero = all.find('\0');
  const std::string_view text = zero == std::string_view::npos ? all : all.substr(zero + 1);
  Result<Vocabulary> vocabulary = parse_tokenizer_json(all.substr(0, zero));
  if (!vocabulary.ok()) {
    // Then the bytes are a pattern.
    const Result<Pattern> pattern = Pattern::parse(all.substr(0, zero));
    std::u32string points(text.begin(), text.end());
    std::int64_t steps = 100000;
    for (char32_t& c : points) c &= 0xff;
    for (std::size_t at = 0; pattern.ok() && at < points.size(); ++at) {
      const auto end = pattern->match(points, at, &steps);
      if (end && (*end < at || *end > points.size())) __builtin_trap();
    }
    return 0;
  }
  const Result<Tokenizer> tokenizer = Tokenizer::make(std::move(*vocabulary));
  if (!tokenizer.ok()) return 0;
  const Part part{text, true};
  const auto tokens = tokenizer->encode(std::span(&part, 1));
  if (!tokens.ok()) return 0;
  for (const Token token : *tokens)
    if (token < 0 || static_cast<std::size_t>(token) >= tokenizer->size()) __builtin_trap();
  (void)tokenizer->decode(*tokens);
  return 0;
}
