#include "tessera/trials/fleet/printable.h"

namespace tessera::fleet {
namespace {

// Bytes of the character that begins the text; 0: none does. Longer forms than needed are none.
std::size_t character_bytes(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 && first <= 0xf4  ? 4
                           : first >= 0xe0 && first < 0xf0 ? 3
                           : first >= 0xc2 && first < 0xe0 ? 2
                                                           : 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool longer_than_needed =
      (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  return longer_than_needed ? 0 : size;
}

bool is_control(std::string_view character) {
  const auto first = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  const auto second = static_cast<unsigned char>(character[1]);
  if (first == 0xc2) return second < 0xa0;
  if (first != 0xe2 || character.size() != 3) return false;
  // Marks and overrides of direction show one name as another.
  const auto third = static_cast<unsigned char>(character[2]);
  return (second == 0x80 &&
          ((third >= 0x8e && third <= 0x8f) || (third >= 0xa8 && third <= 0xae))) ||
         (second == 0x81 && third >= 0xa6 && third <= 0xa9);
}

std::string replaced(std::string_view text, std::string_view kept) {
  std::string out;
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const std::string_view character = text.substr(0, size == 0 ? 1 : size);
    const bool stays =
        size > 0 && (!is_control(character) || kept.find(character) != std::string_view::npos);
    out += stays ? character : "?";
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return replaced(text, ""); }
std::string printable_lines(std::string_view text) { return replaced(text, "\n\t"); }

}  // namespace tessera::fleet
