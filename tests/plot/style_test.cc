// The colours as readers see them: contrast, and what is left of it with each kind of colour
// blindness.
#include "tessera/app/plot/style.h"

#include <array>
#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include "tessera/app/plot/chart.h"

namespace tessera::plot {
namespace {

using Rgb = std::array<double, 3>;
using Matrix = std::array<Rgb, 3>;

// Linear light.
Rgb linear(std::string_view hex) {
  Rgb out{};
  for (std::size_t i = 0; i < 3; ++i) {
    const double c = std::stoi(std::string(hex.substr(1 + 2 * i, 2)), nullptr, 16) / 255.0;
    out[i] = c <= 0.04045 ? c / 12.92 : std::pow((c + 0.055) / 1.055, 2.4);
  }
  return out;
}

// WCAG 2: from 1 to 21.
double contrast(std::string_view a, std::string_view b) {
  const auto luminance = [](std::string_view hex) {
    const Rgb c = linear(hex);
    return 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
  };
  const double x = luminance(a), y = luminance(b);
  return std::max(x, y) / std::min(x, y);
}

// Machado, Oliveira, Fernandes 2009, severity 1: normal, protanopia, deuteranopia, tritanopia.
constexpr std::array<Matrix, 4> kEyes = {
    Matrix{Rgb{1, 0, 0}, Rgb{0, 1, 0}, Rgb{0, 0, 1}},
    Matrix{Rgb{0.152286, 1.052583, -0.204868}, Rgb{0.114503, 0.786281, 0.099216},
           Rgb{-0.003882, -0.048116, 1.051998}},
    Matrix{Rgb{0.367322, 0.860646, -0.227968}, Rgb{0.280085, 0.672501, 0.047413},
           Rgb{-0.011820, 0.042940, 0.968881}},
    Matrix{Rgb{1.255528, -0.076749, -0.178779}, Rgb{-0.078411, 0.930809, 0.147602},
           Rgb{0.004733, 0.691367, 0.303900}}};

double dot(const Rgb& a, const Rgb& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// CIE Lab as that eye sees it.
Rgb lab(std::string_view hex, const Matrix& eye) {
  const Rgb from = linear(hex);
  Rgb c{};
  for (std::size_t i = 0; i < 3; ++i) c[i] = std::min(1.0, std::max(0.0, dot(eye[i], from)));
  const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116; };
  const double x = f(dot({0.4124564, 0.3575761, 0.1804375}, c) / 0.95047);
  const double y = f(dot({0.2126729, 0.7151522, 0.0721750}, c));
  const double z = f(dot({0.0193339, 0.1191920, 0.9503041}, c) / 1.08883);
  return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

void expect_told_apart(const Mode& mode) {
  EXPECT_GE(contrast(mode.ink, mode.ground), 7);
  EXPECT_GE(contrast(mode.soft, mode.ground), 4.5);
  for (std::size_t i = 0; i < mode.colours.size(); ++i) {
    EXPECT_GE(contrast(mode.colours[i], mode.ground), 3) << mode.colours[i];
    for (std::size_t j = 0; j < i; ++j) {
      for (const Matrix& eye : kEyes) {
        const Rgb a = lab(mode.colours[i], eye), b = lab(mode.colours[j], eye);
        const double distance = std::hypot(a[0] - b[0], a[1] - b[1], a[2] - b[2]);
        EXPECT_GE(distance, 25) << mode.colours[i] << " and " << mode.colours[j];
      }
    }
  }
}

TEST(Style, ColoursAreToldApart) {
  expect_told_apart(kLight);
  expect_told_apart(kDark);
}

TEST(Style, ThirtyFiveSeriesLookDifferent) {
  std::set<std::string> looks;
  for (std::size_t n = 0; n < 35; ++n) looks.insert(colour_class(n) + dash_of(n));
  EXPECT_EQ(looks.size(), 35u);
  // Neighbours in a legend differ in their markers too, and so do equal colours.
  for (std::size_t n = 0; n < 28; ++n) {
    const auto shape = [](std::size_t m) {
      const std::string marker = marker_at(m, 0, 0);
      return marker.substr(marker.find(" d="));
    };
    EXPECT_NE(shape(n), shape(n + 1));
    EXPECT_NE(shape(n), shape(n + 7));
  }
}

TEST(Style, DarkIsForScreens) {
  EXPECT_NE(style().find("@media screen and (prefers-color-scheme:dark)"), std::string::npos);
}

}  // namespace
}  // namespace tessera::plot
