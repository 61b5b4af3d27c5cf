#include "tessera/app/plot/scale.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

namespace tessera::plot {
namespace {

// 1, 2 or 5 times a power of ten, not below `least`.
double nice_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

// With the digits that tell neighbours apart.
std::string tick_text(double value, double step) {
  if (std::abs(value) < 1e-9 * step) return "0";
  if (std::abs(value) >= 1e6 || step < 1e-4) return fmt::format("{:.4g}", value);
  const int digits = std::clamp(static_cast<int>(std::ceil(-std::log10(step) - 1e-9)), 0, 6);
  return fmt::format("{:.{}f}", value, digits);
}

}  // namespace

Scale::Scale(const Axis& axis, double least, double most, double from, double to, int ticks)
    : label_(axis.label), logarithmic_(axis.logarithmic), from_(from), to_(to) {
  if (!std::isfinite(least) || !std::isfinite(most) || (logarithmic_ && least <= 0)) {
    least = most = 1;
  }
  low_ = axis.low.value_or(logarithmic_ ? least : std::min(0.0, least));
  high_ = std::max(axis.high.value_or(most), low_);
  if (logarithmic_) {
    if (high_ < 2 * low_) high_ = 2 * low_;
    add_log_ticks(ticks);
  } else {
    if (high_ - low_ < 1e-12 * std::max(1.0, std::abs(low_))) high_ = low_ + 1;
    add_linear_ticks(axis, ticks);
  }
}

void Scale::add_linear_ticks(const Axis& axis, int ticks) {
  const double step = nice_step((high_ - low_) / std::max(1, ticks));
  low_ = std::floor(low_ / step + 1e-6) * step;
  high_ = axis.high && std::abs(std::remainder(*axis.high, step)) > 1e-6 * step
              ? *axis.high
              : std::ceil(high_ / step - 1e-6) * step;
  for (int i = 0;; ++i) {
    const double value = low_ + i * step;
    if (value > high_ + 1e-6 * step) break;
    ticks_.push_back({value, tick_text(value, step)});
  }
}

void Scale::add_log_ticks(int ticks) {
  const double base = high_ / low_ > 5000 ? 10 : 2;
  const double powers = std::log(high_ / low_) / std::log(base);
  const int every = std::max(1, static_cast<int>(std::ceil(powers / std::max(1, ticks))));
  const double room = 0.6 * every * std::log(base);
  const auto text = [](double value) { return fmt::format("{:.4g}", value); };
  ticks_.push_back({low_, text(low_)});
  const int first = static_cast<int>(std::floor(std::log(low_) / std::log(base)));
  for (int power = first; std::pow(base, power) < high_; ++power) {
    const double value = std::pow(base, power);
    if (std::log(value / ticks_.back().value) < room || std::log(high_ / value) < room) continue;
    if (every > 1 && std::log(value / ticks_.back().value) < every * std::log(base) * 0.95 &&
        ticks_.size() > 1)
      continue;
    ticks_.push_back({value, text(value)});
  }
  ticks_.push_back({high_, text(high_)});
}

bool Scale::shows(double value) const {
  return std::isfinite(value) && (!logarithmic_ || value > 0);
}

double Scale::at(double value) const {
  const double share = logarithmic_ ? std::log(value / low_) / std::log(high_ / low_)
                                    : (value - low_) / (high_ - low_);
  return from_ + (to_ - from_) * share;
}

std::string Scale::label() const {
  if (starts_at_zero()) return label_;
  return fmt::format("{} ({}starts at {})", label_, logarithmic_ ? "logarithmic, " : "",
                     ticks_.front().text);
}

}  // namespace tessera::plot
