#include "tessera/app/plot/legend.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/app/plot/style.h"
#include "tessera/app/plot/svg.h"

namespace tessera::plot {
namespace {

constexpr double kKey = 34, kGap = 8, kBetween = 20, kLine = 19;

std::string draw_key(const LegendEntry& e, double x, double y) {
  switch (e.key) {
    case Key::kLine:
      return fmt::format("<path class=\"line {}\"{} d=\"M{:.1f} {:.1f}h{:.0f}\"/>",
                         colour_class(e.series), dash_of(e.series), x, y, kKey) +
             marker_at(e.series, x + kKey / 2, y);
    case Key::kBar:
      return bar(e.series, x + 6, y - 5, kKey - 12, 10);
    case Key::kDot:
      return marker_at(e.series, x + kKey / 2, y);
    case Key::kMark:
      return fmt::format("<path class=\"mark\" d=\"M{:.1f} {:.1f}v14\"/>", x + kKey / 2, y - 7);
  }
  return "";
}

}  // namespace

Legend::Legend(std::vector<LegendEntry> entries, double room) : entries_(std::move(entries)) {
  if (entries_.empty()) return;
  double widest = 0;
  for (const LegendEntry& e : entries_) widest = std::max(widest, text_width(e.name));
  column_ = kKey + kGap + widest + kBetween;
  const auto fitting = static_cast<std::size_t>((room + kBetween) / column_);
  const std::size_t columns = std::clamp<std::size_t>(fitting, 1, entries_.size());
  rows_ = (entries_.size() + columns - 1) / columns;
  const std::size_t used = (entries_.size() + rows_ - 1) / rows_;
  width_ = column_ * static_cast<double>(used) - kBetween;
}

double Legend::height() const { return kLine * static_cast<double>(rows_); }

std::string Legend::draw(double left, double top) const {
  std::string out;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    const std::size_t column = i / rows_, row = i % rows_;
    const double x = left + column_ * static_cast<double>(column);
    const double y = top + kLine * (static_cast<double>(row) + 0.5);
    out += draw_key(entries_[i], x, y) + text_at(x + kKey + kGap, y + 4, entries_[i].name);
  }
  return out;
}

std::string bar(std::size_t n, double x, double y, double width, double height) {
  // The first of two is pale: they differ in print as well.
  return fmt::format(
      "<rect class=\"bar {}{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>",
      colour_class(n), n % 2 == 0 ? " pale" : "", x, y, width, height);
}

}  // namespace tessera::plot
