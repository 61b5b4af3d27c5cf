#include "tessera/frontend/tokenizer/word_encoder.h"

#include <array>

#include "tessera/frontend/tokenizer/unicode.h"

namespace tessera::tokenizer {
namespace {

struct ByteAlphabet {
  std::array<char32_t, 256> character{};
  std::unordered_map<char32_t, unsigned char> byte;
};

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet kAlphabet = [] {
    ByteAlphabet out;
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
      out.character[b] = printable ? b : next++;
      out.byte[out.character[b]] = static_cast<unsigned char>(b);
    }
    return out;
  }();
  return kAlphabet;
}

}  // namespace

char32_t character_of_byte(unsigned char byte) { return byte_alphabet().character[byte]; }

std::string bytes_of_characters(std::string_view text) {
  const ByteAlphabet& alphabet = byte_alphabet();
  std::string out;
  for (std::string_view rest = text; !rest.empty();) {
    const CodePoint c = first_code_point(rest);
    const auto it = alphabet.byte.find(c.value);
    if (it == alphabet.byte.end()) return std::string(text);
    out.push_back(static_cast<char>(it->second));
    rest.remove_prefix(c.bytes);
  }
  return out;
}

std::vector<std::optional<Token>> byte_tokens(const TokenOfText& tokens) {
  std::vector<std::optional<Token>> out(256);
  for (std::size_t b = 0; b < 256; ++b) {
    const auto it = tokens.find(fmt::format("<0x{:02X}>", b));
    if (it != tokens.end()) out[b] = it->second;
  }
  return out;
}

void append_unknown(const Vocabulary& vocabulary, const std::vector<std::optional<Token>>& of_byte,
                    std::string_view character, std::size_t begin, std::vector<Token>* out) {
  bool all = vocabulary.bytes_for_unknown;
  for (const char c : character) all = all && of_byte[static_cast<unsigned char>(c)];
  if (all) {
    for (const char c : character) out->push_back(*of_byte[static_cast<unsigned char>(c)]);
    return;
  }
  if (!vocabulary.unknown) return;
  const bool follows = out->size() > begin && out->back() == *vocabulary.unknown;
  if (!vocabulary.fuse_unknown || !follows) out->push_back(*vocabulary.unknown);
}

}  // namespace tessera::tokenizer
