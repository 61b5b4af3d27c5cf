#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "tessera/app/plot/axes.h"
#include "tessera/app/plot/chart.h"
#include "tessera/app/plot/legend.h"
#include "tessera/app/plot/style.h"
#include "tessera/app/plot/svg.h"

namespace tessera::plot {
namespace {

constexpr double kEdge = 12, kBar = 13, kBetween = 9;
constexpr double kLabelShare = 0.42;  // of the width, at most for the labels

std::string value_text(const RowChart& chart, double value) {
  return fmt::format("{:.{}f}", value, chart.digits);
}

// What the rows need, before there is a scale.
struct Layout {
  double labels = 0, values = 0, row = 0;
};

Layout layout_of(const RowChart& chart) {
  Layout out;
  for (const Row& row : chart.rows) {
    out.labels = std::max(out.labels, text_width(row.label));
    for (const double v : row.values) {
      if (std::isfinite(v)) out.values = std::max(out.values, text_width(value_text(chart, v)));
    }
  }
  out.labels = std::min(out.labels, kLabelShare * chart.width);
  out.row = kBetween + kBar * static_cast<double>(std::max<std::size_t>(1, chart.series.size()));
  return out;
}

std::string draw_row(const RowChart& chart, const Row& row, const Scale& x, double labels,
                     double top, double height) {
  const double middle = top + height / 2;
  const std::string label = fit_text(row.label, labels);
  std::string out = "<g>";
  if (label != row.label) out += fmt::format("<title>{}</title>", escape(row.label));
  out += text_at(kEdge + labels, middle + 4, label, Anchor::kEnd);
  const double zero = x.at(x.low());
  for (std::size_t n = 0; n < row.values.size() && n < chart.series.size(); ++n) {
    const double value = row.values[n];
    if (!x.shows(value)) continue;
    const double at = x.at(std::clamp(value, x.low(), x.high()));
    const double y = top + kBetween / 2 + kBar * static_cast<double>(n);
    out += x.starts_at_zero() ? bar(n, zero, y + 1, at - zero, kBar - 2)
                              : marker_at(n, at, y + kBar / 2);
    out += text_at(at + 7, y + kBar - 2.5, value_text(chart, value), Anchor::kStart, "soft");
  }
  if (row.mark && x.shows(*row.mark)) {
    out += fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}v{:.1f}\"/>", x.at(*row.mark),
                       top + 2, height - 4);
  }
  return out + "</g>\n";
}

}  // namespace

std::string to_svg(const RowChart& chart, Place place) {
  Range in_x(chart.x);
  for (const Row& row : chart.rows) {
    for (const double v : row.values) in_x.add(v);
    if (row.mark) in_x.add(*row.mark);
  }
  const Layout layout = layout_of(chart);
  const Scale probe(chart.x, in_x.least(), in_x.most(), 0, 1, 6);
  std::vector<LegendEntry> entries;
  for (std::size_t n = 0; n < chart.series.size() && chart.series.size() > 1; ++n) {
    entries.push_back({chart.series[n], probe.starts_at_zero() ? Key::kBar : Key::kDot, n});
  }
  if (!chart.mark.empty()) entries.push_back({chart.mark, Key::kMark});
  const Legend legend(entries, chart.width - 2 * kEdge);
  const double width =
      std::max({chart.width, legend.width() + 2 * kEdge, text_width(probe.label()) + 2 * kEdge});
  Frame frame{.left = kEdge + layout.labels + 8, .top = kEdge + legend.height()};
  frame.right = width - kEdge - std::max(layout.values + 8, right_of_axis(probe));
  frame.bottom = frame.top + layout.row * static_cast<double>(chart.rows.size()) + 4;
  const Scale x(chart.x, in_x.least(), in_x.most(), frame.left, frame.right, 6);

  std::string out =
      svg_begin(width, frame.bottom + kBelowAxis + 4, chart.title, place == Place::kFile);
  out += legend.draw(kEdge, kEdge / 2) + draw_x_axis(x, frame);
  for (std::size_t i = 0; i < chart.rows.size(); ++i) {
    out += draw_row(chart, chart.rows[i], x, layout.labels,
                    frame.top + layout.row * static_cast<double>(i) + 2, layout.row);
  }
  return out + "</svg>\n";
}

}  // namespace tessera::plot
