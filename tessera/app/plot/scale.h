// Where values lie on an axis, and its ticks.
#pragma once

#include <string>
#include <vector>

#include "tessera/app/plot/chart.h"

namespace tessera::plot {

struct Tick {
  double value = 0;
  std::string text;
};

class Scale {
 public:
  // Of an axis whose values reach from `least` to `most`; its ends lie at the pixels `from` and
  // `to`. At most about `ticks` of them.
  Scale(const Axis& axis, double least, double most, double from, double to, int ticks);

  // In pixels, beyond `from` and `to` for what is beyond the ends.
  double at(double value) const;
  bool shows(double value) const;  // finite, and above zero where logarithmic
  double low() const { return low_; }
  double high() const { return high_; }
  bool starts_at_zero() const { return !logarithmic_ && low_ == 0; }
  const std::vector<Tick>& ticks() const { return ticks_; }
  // What the axis is about; also where it starts, if not at zero.
  std::string label() const;

 private:
  void add_linear_ticks(const Axis& axis, int ticks);
  void add_log_ticks(int ticks);

  std::string label_;
  bool logarithmic_;
  double low_, high_, from_, to_;
  std::vector<Tick> ticks_;
};

}  // namespace tessera::plot
