#include "tessera/app/plot/svg.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "tessera/app/plot/chart.h"

namespace tessera::plot {
namespace {

// Length of the UTF-8 sequence at the beginning, 0 where there is none: overlong forms, surrogates
// and what lies above U+10FFFF are none.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool beyond = (first == 0xed && byte(1) >= 0xa0) || (first == 0xf4 && byte(1) >= 0x90);
  return overlong || beyond ? 0 : length;
}

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr std::string_view kEllipsis = "\xe2\x80\xa6";     // U+2026

// Characters, each as its bytes; other bytes as U+FFFD.
std::vector<std::string_view> characters(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    out.push_back(length > 0 ? text.substr(0, length) : kReplacement);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return out;
}

// Of DejaVu Sans and Verdana, the widest of the fonts that browsers take for sans-serif; in em.
double width_of(std::string_view character) {
  if (character.size() > 1) return 1.05;
  const char c = character[0];
  constexpr std::string_view kNarrow = "ijlI|!.,:;'` ", kMedium = "frt()[]{}/\\-\"J",
                             kWide = "mwMW%@";
  if (kNarrow.find(c) != std::string_view::npos) return 0.42;
  if (kMedium.find(c) != std::string_view::npos) return 0.49;
  if (kWide.find(c) != std::string_view::npos) return 1.09;
  if (c >= 'A' && c <= 'Z') return 0.80;
  return c >= 'a' && c <= 'z' ? 0.64 : c >= '0' && c <= '9' ? 0.65 : 0.84;
}

const char* to_text(Anchor anchor) {
  switch (anchor) {
    case Anchor::kStart:
      return "";
    case Anchor::kMiddle:
      return " text-anchor=\"middle\"";
    case Anchor::kEnd:
      return " text-anchor=\"end\"";
  }
  return "";
}

}  // namespace

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const std::string_view c : characters(text)) {
    const auto byte = static_cast<unsigned char>(c[0]);
    switch (c[0]) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += (byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f ? kReplacement : c;
    }
  }
  return out;
}

double text_width(std::string_view text) {
  double em = 0;
  for (const std::string_view c : characters(text)) em += width_of(c);
  return em * kFontSize;
}

std::string fit_text(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  const std::vector<std::string_view> all = characters(text);
  std::string head, tail;
  double left = width - text_width(kEllipsis);
  for (std::size_t i = 0; i < all.size(); ++i) {
    // From both ends in turns, the beginning first.
    const std::string_view c = i % 2 == 0 ? all[i / 2] : all[all.size() - 1 - i / 2];
    left -= text_width(c);
    if (left < 0) break;
    if (i % 2 == 0) {
      head += c;
    } else {
      tail.insert(0, c);
    }
  }
  return head + std::string(kEllipsis) + tail;
}

std::string text_at(double x, double y, std::string_view text, Anchor anchor) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, to_text(anchor),
                     escape(text));
}

std::string text_at(double x, double y, std::string_view text, Anchor anchor,
                    std::string_view css_class) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", css_class, x, y,
                     to_text(anchor), escape(text));
}

std::string svg_begin(double width, double height, std::string_view title, bool with_style) {
  const std::string name = escape(title);
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
      "width=\"{0:.0f}\" height=\"{1:.0f}\" role=\"img\" aria-label=\"{2}\">\n<title>{2}</title>\n"
      "{3}<rect class=\"ground\" width=\"{0:.0f}\" height=\"{1:.0f}\"/>\n",
      std::ceil(width), std::ceil(height), name,
      with_style ? fmt::format("<style>\n{}</style>\n", style()) : "");
}

}  // namespace tessera::plot
