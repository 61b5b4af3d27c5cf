// Text in SVG and HTML.
#pragma once

#include <string>
#include <string_view>

namespace tessera::plot {

inline constexpr double kFontSize = 12;

// Fit for text and for attributes in quotes: markup is escaped, bytes that are not UTF-8 and
// control characters become U+FFFD, line breaks and tabs stay.
std::string escape(std::string_view text);

// Pixels at kFontSize, an upper bound for the usual sans-serif fonts.
double text_width(std::string_view text);

// At most `width` pixels wide: the middle of a longer text gives way to an ellipsis.
std::string fit_text(std::string_view text, double width);

enum class Anchor { kStart, kMiddle, kEnd };

// <text> with its lower left, middle or right at x, y.
std::string text_at(double x, double y, std::string_view text, Anchor anchor = Anchor::kStart);
// The same with a class of the style.
std::string text_at(double x, double y, std::string_view text, Anchor anchor,
                    std::string_view css_class);

// The element that everything is within; `title` names it for screen readers.
std::string svg_begin(double width, double height, std::string_view title, bool with_style);

}  // namespace tessera::plot
