#include "tessera/app/plot/axes.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/app/plot/svg.h"

namespace tessera::plot {
namespace {

constexpr double kYLabel = 20;  // the turned label of the y axis

std::string line(const char* css_class, double x1, double y1, double x2, double y2) {
  return fmt::format(
      "<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", css_class,
      x1, y1, x2, y2);
}

}  // namespace

void Range::add(double value) {
  if (!std::isfinite(value) || (logarithmic_ && value <= 0)) return;
  least_ = std::isnan(least_) ? value : std::min(least_, value);
  most_ = std::isnan(most_) ? value : std::max(most_, value);
}

std::string draw_x_axis(const Scale& x, const Frame& frame) {
  std::string out;
  for (const Tick& tick : x.ticks()) {
    const double at = x.at(tick.value);
    out += line("grid", at, frame.top, at, frame.bottom);
    out += text_at(at, frame.bottom + 16, tick.text, Anchor::kMiddle, "soft");
  }
  out += line("axis", frame.left, frame.bottom, frame.right, frame.bottom);
  // Centred below the frame where it fits, never beyond an edge of the image.
  const std::string label = x.label();
  const double half = text_width(label) / 2;
  const double middle =
      std::max(std::min((frame.left + frame.right) / 2, frame.right + 6 - half), half + 2);
  return out + text_at(middle, frame.bottom + 36, label, Anchor::kMiddle);
}

double left_of_axis(const Scale& y) {
  double widest = 0;
  for (const Tick& tick : y.ticks()) widest = std::max(widest, text_width(tick.text));
  return kYLabel + widest + 10;
}

double right_of_axis(const Scale& x) { return text_width(x.ticks().back().text) / 2 + 6; }

std::string draw_y_axis(const Scale& y, const Frame& frame) {
  std::string out;
  for (const Tick& tick : y.ticks()) {
    const double at = y.at(tick.value);
    out += line("grid", frame.left, at, frame.right, at);
    out += text_at(frame.left - 6, at + 4, tick.text, Anchor::kEnd, "soft");
  }
  out += line("axis", frame.left, frame.top, frame.left, frame.bottom);
  return out + fmt::format(
                   "<text transform=\"translate(14 {:.1f}) rotate(-90)\" "
                   "text-anchor=\"middle\">{}</text>\n",
                   (frame.top + frame.bottom) / 2, escape(y.label()));
}

}  // namespace tessera::plot
