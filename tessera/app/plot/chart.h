// Charts as plain data, drawn as SVG. Colours, dashes and markers tell series apart, also for the
// colour-blind and in print; the drawing follows the reader's light or dark mode.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tessera::plot {

struct Axis {
  std::string label;  // with its unit: "time [ms]"
  bool logarithmic = false;
  // Where it starts and ends, rounded outwards to a tick where linear; absent: at zero (the least
  // value where logarithmic or below zero), and at the largest value.
  std::optional<double> low, high;
};

struct Point {
  double x = 0, y = 0;
};

struct Series {
  std::string name;
  std::vector<Point> points;  // in order of x; what is not finite is left out
  bool steps = false;         // a value holds until the next point
};

struct LineChart {
  std::string title;  // for screen readers and as a tooltip
  Axis x, y;
  std::vector<Series> series;
  double width = 640, height = 360;  // at least; the legend below adds to the height
};

struct Row {
  std::string label;
  std::vector<double> values;  // one for each series; not finite: none
  std::optional<double> mark;  // a line across the row
};

// Rows of bars that start at zero, or of dots where the axis starts elsewhere.
struct RowChart {
  std::string title;
  Axis x;
  std::vector<std::string> series;
  std::vector<Row> rows;
  std::string mark;  // name of the marks in the legend; empty: there are none
  int digits = 2;    // of the values beside bars
  double width = 640;
};

enum class Place {
  kFile,  // an image of its own, with its style
  kPage,  // a part of a page that has style() in its head
};

std::string to_svg(const LineChart& chart, Place place = Place::kFile);
std::string to_svg(const RowChart& chart, Place place = Place::kFile);

// The CSS of all charts.
std::string style();

}  // namespace tessera::plot
