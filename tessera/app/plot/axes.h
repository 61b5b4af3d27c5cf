// The grid and the labels of both kinds of charts.
#pragma once

#include <limits>
#include <string>

#include "tessera/app/plot/scale.h"

namespace tessera::plot {

// The part of a chart that shows data, in pixels.
struct Frame {
  double left = 0, top = 0, right = 0, bottom = 0;
};

// Grid lines, ticks and the label below.
std::string draw_x_axis(const Scale& x, const Frame& frame);
inline constexpr double kBelowAxis = 44;  // pixels that it takes below the frame
// ... and on the left, of a frame that leaves left_of_axis() there.
std::string draw_y_axis(const Scale& y, const Frame& frame);
double left_of_axis(const Scale& y);
// Room that the last tick of the x axis needs beyond the frame.
double right_of_axis(const Scale& x);

// Least and largest of what an axis can show; NaN where there is nothing.
class Range {
 public:
  explicit Range(const Axis& axis) : logarithmic_(axis.logarithmic) {}
  void add(double value);
  double least() const { return least_; }
  double most() const { return most_; }

 private:
  bool logarithmic_;
  double least_ = std::numeric_limits<double>::quiet_NaN(), most_ = least_;
};

}  // namespace tessera::plot
