// Names of series beside how they look, in columns below a chart.
#pragma once

#include <string>
#include <vector>

namespace tessera::plot {

enum class Key { kLine, kBar, kDot, kMark };

struct LegendEntry {
  std::string name;
  Key key = Key::kLine;
  std::size_t series = 0;
};

class Legend {
 public:
  // `room` pixels wide, more where a name needs it.
  Legend(std::vector<LegendEntry> entries, double room);

  double width() const { return width_; }
  double height() const;
  std::string draw(double left, double top) const;

 private:
  std::vector<LegendEntry> entries_;
  double column_ = 0, width_ = 0;
  std::size_t rows_ = 0;
};

// A bar of the n-th series.
std::string bar(std::size_t n, double x, double y, double width, double height);

}  // namespace tessera::plot
