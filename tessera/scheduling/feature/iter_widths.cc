#include "tessera/scheduling/feature/iter_widths.h"

#include <algorithm>
#include <cmath>

namespace tessera::feature {
namespace {

std::size_t idx(int i) { return static_cast<std::size_t>(i); }

bool divides(double a, double b) { return std::fmod(b, a) == 0; }

}  // namespace

IterWidths::IterWidths(const schedule::Stage& stage, const std::vector<std::int64_t>& extents,
                       std::pmr::memory_resource* memory)
    : stage_(stage),
      extents_(extents),
      parts_(stage.iters.size(), memory),
      values_(stage.iters.size(), memory) {}

void IterWidths::run_from(const std::pmr::vector<double>& loop_of, double level) {
  for (std::size_t p = 0; p < stage_.leaves.size(); ++p) {
    const int id = stage_.leaves[p];
    parts_[idx(id)] = {.width = loop_of[p] >= level ? extent(id) : 1};
  }
  for (std::size_t k = stage_.relations.size(); k-- > 0;) {
    const schedule::Relation& r = stage_.relations[k];
    if (r.kind == schedule::Relation::Kind::kSplit) {
      widen_split(r);
    } else {
      widen_fuse(r);
    }
  }
}

void IterWidths::widen_split(const schedule::Relation& r) {
  double width = 1, scale = 1;
  bool aligned = true;  // whole inner parts, then parts that stand still
  bool still = false;
  for (std::size_t i = r.to.size(); i-- > 0;) {
    const Part& part = parts_[idx(r.to[i])];
    const double full = extent(r.to[i]);
    width += (part.width - 1) * scale;
    scale *= full;
    if (part.width > 1 && still) aligned = false;
    if (part.width < full) {
      aligned = aligned && part.aligned;
      still = true;
    }
  }
  const double full = extent(r.from[0]);
  parts_[idx(r.from[0])] = {.width = std::min(width, full), .aligned = aligned || width >= full};
}

void IterWidths::widen_fuse(const schedule::Relation& r) {
  Part rest = parts_[idx(r.to[0])];
  for (std::size_t i = r.from.size(); i-- > 1;) {
    const double full = extent(r.from[i]);
    Part& part = parts_[idx(r.from[i])];
    const bool within = rest.aligned && divides(rest.width, full);  // never crosses a multiple
    part = {.width = within ? rest.width : full};
    if (rest.width <= 1) part.width = 1;
    if (rest.width <= 1 || within) {
      rest = {.width = 1};
    } else if (rest.aligned && divides(full, rest.width)) {
      rest.width /= full;
    } else {
      rest = {.width = std::floor((rest.width - 1) / full) + 2, .aligned = false};
    }
  }
  const double full = extent(r.from[0]);
  parts_[idx(r.from[0])] = {.width = std::min(rest.width, full),
                            .aligned = rest.aligned || rest.width >= full};
}

void IterWidths::move(const std::pmr::vector<double>& loop_of, double loop) {
  for (std::size_t p = 0; p < stage_.leaves.size(); ++p)
    values_[idx(stage_.leaves[p])] = loop_of[p] == loop ? 1 : 0;
  for (std::size_t k = stage_.relations.size(); k-- > 0;) {
    const schedule::Relation& r = stage_.relations[k];
    if (r.kind == schedule::Relation::Kind::kSplit) {
      double value = 0;
      for (const int id : r.to) value = value * extent(id) + values_[idx(id)];
      values_[idx(r.from[0])] = value;
      continue;
    }
    double rest = values_[idx(r.to[0])];
    for (std::size_t i = r.from.size(); i-- > 1;) {
      const double full = extent(r.from[i]);
      const double quotient = std::floor(rest / full);
      values_[idx(r.from[i])] = rest - quotient * full;
      rest = quotient;
    }
    values_[idx(r.from[0])] = rest;
  }
}

}  // namespace tessera::feature
