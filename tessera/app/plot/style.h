// How series look: each has a colour, a dash and a marker of its own.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::plot {

struct Mode {
  std::string_view ground, ink, soft, grid;  // behind, text, secondary text, grid lines
  std::array<std::string_view, 7> colours;   // of series
};

// Chosen for contrast with the ground (3 at least) and for the largest distance between the two
// nearest colours as people with protanopia, deuteranopia and tritanopia see them.
inline constexpr Mode kLight{
    "#ffffff",
    "#1a1a1a",
    "#57606a",
    "#d8dde3",
    {"#003296", "#f06f14", "#03a973", "#9a1f6f", "#1a1a1a", "#7a541d", "#606cff"}};
inline constexpr Mode kDark{
    "#15181c",
    "#f2f2f2",
    "#a8b3be",
    "#3a424b",
    {"#9bcbff", "#ed743a", "#0dff92", "#b8699d", "#f2f2f2", "#ffcc1b", "#7772e4"}};

// Class of the n-th series: its colour.
std::string colour_class(std::size_t n);
// Attribute with its dash, empty for a solid line: colours that come again have another one.
std::string dash_of(std::size_t n);
// Its marker, centred at x, y.
std::string marker_at(std::size_t n, double x, double y);

}  // namespace tessera::plot
