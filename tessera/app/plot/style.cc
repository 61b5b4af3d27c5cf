#include "tessera/app/plot/style.h"

#include <fmt/format.h>

#include "tessera/app/plot/chart.h"

namespace tessera::plot {
namespace {

constexpr std::size_t kColours = kLight.colours.size();
constexpr std::string_view kDashes[] = {"", "7 3", "2 3", "9 3 2 3", "14 4"};
// Paths around the origin, about 8 pixels across.
constexpr std::string_view kMarkers[] = {
    "m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0z",   // circle
    "m-3.2-3.2h6.4v6.4h-6.4z",                        // square
    "m0-4.4 4 7.2h-8z",                               // triangle
    "m0-4.6 4.2 4.6-4.2 4.6-4.2-4.6z",                // diamond
    "m0 4.4 4-7.2h-8z",                               // triangle upside down
    "m-1.2-4.2h2.4v3h3v2.4h-3v3h-2.4v-3h-3v-2.4h3z",  // plus
    "m0-2 2.4-2.4 2 2-2.4 2.4 2.4 2.4-2 2-2.4-2.4-2.4 2.4-2-2 2.4-2.4-2.4-2.4 2-2z",  // cross
};

std::string variables(const Mode& mode) {
  std::string out = fmt::format("--ground:{};--ink:{};--soft:{};--grid:{}", mode.ground, mode.ink,
                                mode.soft, mode.grid);
  for (std::size_t i = 0; i < kColours; ++i) out += fmt::format(";--c{}:{}", i, mode.colours[i]);
  return out;
}

}  // namespace

std::string colour_class(std::size_t n) { return fmt::format("c{}", n % kColours); }

std::string dash_of(std::size_t n) {
  const std::string_view dash = kDashes[n / kColours % std::size(kDashes)];
  return dash.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", dash);
}

std::string marker_at(std::size_t n, double x, double y) {
  const std::size_t shape = (n + n / kColours) % std::size(kMarkers);
  return fmt::format("<path class=\"marker {}\" d=\"M{:.1f} {:.1f}{}\"/>", colour_class(n), x, y,
                     kMarkers[shape]);
}

std::string style() {
  // Dark on screens alone: print is on paper.
  std::string out =
      fmt::format(".plot{{{}}}\n@media screen and (prefers-color-scheme:dark){{.plot{{{}}}}}\n",
                  variables(kLight), variables(kDark));
  out +=
      ".plot{font:12px system-ui,sans-serif;max-width:100%;height:auto;print-color-adjust:exact;"
      "-webkit-print-color-adjust:exact}\n"
      ".plot text{fill:var(--ink)}.plot .soft{fill:var(--soft)}.plot .ground{fill:var(--ground)}\n"
      ".plot .grid{stroke:var(--grid)}.plot .axis{stroke:var(--soft)}\n"
      ".plot .line{fill:none;stroke-width:2;stroke-linejoin:round}\n"
      ".plot .marker{stroke:var(--ground);stroke-width:.8}\n"
      ".plot .mark{stroke:var(--ink);stroke-width:2}\n"
      ".plot .pale{fill-opacity:.45}\n";
  for (std::size_t i = 0; i < kColours; ++i) {
    out += fmt::format(
        ".plot .line.c{0},.plot .bar.c{0}{{stroke:var(--c{0})}}.plot .marker.c{0},.plot "
        ".bar.c{0}{{fill:var(--c{0})}}\n",
        i);
  }
  return out;
}

}  // namespace tessera::plot
