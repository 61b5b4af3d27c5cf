#include <algorithm>

#include <fmt/format.h>

#include "tessera/app/plot/axes.h"
#include "tessera/app/plot/chart.h"
#include "tessera/app/plot/legend.h"
#include "tessera/app/plot/style.h"
#include "tessera/app/plot/svg.h"

namespace tessera::plot {
namespace {

constexpr double kEdge = 12;    // around everything
constexpr double kMarkers = 6;  // of a curve, about

struct Pixel {
  double x = 0, y = 0;
};

std::vector<Pixel> pixels_of(const Series& series, const Scale& x, const Scale& y) {
  std::vector<Pixel> out;
  for (const Point& p : series.points) {
    if (!x.shows(p.x) || !y.shows(p.y)) continue;
    const Pixel next{x.at(p.x), y.at(p.y)};
    if (series.steps && !out.empty()) out.push_back({next.x, out.back().y});
    out.push_back(next);
  }
  return out;
}

// Of each curve at other places: where several lie upon each other, all can be seen.
std::string markers(std::size_t n, std::size_t series, const std::vector<Pixel>& pixels,
                    const Frame& frame) {
  std::string out;
  const double every = (frame.right - frame.left) / kMarkers;
  const double share = (static_cast<double>(n) + 0.5) / static_cast<double>(series);
  double next = frame.left + every * share;
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    const bool last = i + 1 == pixels.size();
    if (pixels[i].x < next && !(last && out.empty())) continue;
    out += marker_at(n, pixels[i].x, pixels[i].y);
    while (next <= pixels[i].x) next += every;
  }
  return out;
}

// What is drawn in it ends with the frame, but for the width of lines and markers: a curve that
// comes from beyond an end must not seem to begin there.
std::string within(const Frame& frame) {
  constexpr double kOver = 5;
  return fmt::format(
      "<svg x=\"{0:.1f}\" y=\"{1:.1f}\" width=\"{2:.1f}\" height=\"{3:.1f}\" "
      "viewBox=\"{0:.1f} {1:.1f} {2:.1f} {3:.1f}\">\n",
      frame.left - kOver, frame.top - kOver, frame.right - frame.left + 2 * kOver,
      frame.bottom - frame.top + 2 * kOver);
}

std::string curve(const LineChart& chart, std::size_t n, const Scale& x, const Scale& y,
                  const Frame& frame) {
  const std::vector<Pixel> pixels = pixels_of(chart.series[n], x, y);
  if (pixels.empty()) return "";
  std::string out = fmt::format("<g><title>{}</title><polyline class=\"line {}\"{} points=\"",
                                escape(chart.series[n].name), colour_class(n), dash_of(n));
  for (const Pixel& p : pixels) out += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  out.back() = '"';
  return out + "/>" + markers(n, chart.series.size(), pixels, frame) + "</g>\n";
}

}  // namespace

std::string to_svg(const LineChart& chart, Place place) {
  Range in_x(chart.x), in_y(chart.y);
  std::vector<LegendEntry> entries;
  for (std::size_t n = 0; n < chart.series.size(); ++n) {
    const Series& series = chart.series[n];
    if (!series.name.empty()) entries.push_back({series.name, Key::kLine, n});
    for (const Point& p : series.points) {
      in_x.add(p.x);
      in_y.add(p.y);
    }
  }
  const Legend legend(entries, chart.width - 2 * kEdge);
  Frame frame{.top = kEdge, .bottom = chart.height - kBelowAxis};
  const Scale y(chart.y, in_y.least(), in_y.most(), frame.bottom, frame.top, 6);
  frame.left = left_of_axis(y);
  const Scale probe(chart.x, in_x.least(), in_x.most(), 0, 1, 8);
  const double width =
      std::max({chart.width, legend.width() + 2 * kEdge, text_width(probe.label()) + 2 * kEdge});
  frame.right = width - std::max(kEdge, right_of_axis(probe));
  // A turned label longer than the frame is high would leave the image.
  frame.bottom = std::max(frame.bottom, frame.top + text_width(y.label()));
  const Scale fitted(chart.y, in_y.least(), in_y.most(), frame.bottom, frame.top, 6);
  const Scale x(chart.x, in_x.least(), in_x.most(), frame.left, frame.right, 8);

  const double legend_top = frame.bottom + kBelowAxis + 4;
  const double height = legend_top + legend.height() + (entries.empty() ? 0 : kEdge);
  std::string out = svg_begin(width, height, chart.title, place == Place::kFile);
  out += draw_x_axis(x, frame) + draw_y_axis(fitted, frame);
  out += within(frame);
  for (std::size_t n = 0; n < chart.series.size(); ++n) out += curve(chart, n, x, fitted, frame);
  return out + "</svg>\n" + legend.draw(kEdge, legend_top) + "</svg>\n";
}

}  // namespace tessera::plot
