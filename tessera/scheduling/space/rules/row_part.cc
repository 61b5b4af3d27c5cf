#include "tessera/scheduling/space/rules/row_part.h"

#include <algorithm>

#include <fmt/format.h>

#include "tessera/scheduling/space/limits.h"
#include "tessera/scheduling/space/rules/tile_values.h"
#include "tessera/scheduling/space/share.h"
#include "tessera/scheduling/space/tile.h"
#include "tessera/support/ceil_div.h"

namespace tessera::space {
namespace {

// Iterations of a reduction below which folding vectors does not pay.
constexpr std::int64_t kMinFold = 2;

std::vector<std::int64_t> multiples(std::int64_t unit, std::int64_t most,
                                    std::initializer_list<std::int64_t> factors) {
  std::vector<std::int64_t> out;
  for (const std::int64_t f : factors) {
    if (f * unit <= most) out.push_back(f * unit);
  }
  if (out.empty()) out.push_back(std::max<std::int64_t>(1, most));
  return out;
}

}  // namespace

RowPart::RowPart(std::shared_ptr<const Analysis> analysis, const target::Target& target,
                 std::size_t stage, bool alone)
    : analysis_(std::move(analysis)), target_(target), stage_(stage), alone_(alone) {
  lanes_ = std::max(1, target_.vector_bytes / size_bytes(this->stage().dtype()));
  mode_ = choose_mode();
  find_axes();
  switch (mode_) {
    case Mode::kLine:
      add_line();
      mend_preferred();
      break;
    case Mode::kPoint:
    case Mode::kLanes:
      add_vectors();
      mend_preferred();
      break;
    case Mode::kFold:
      add_fold();
      break;
    case Mode::kScalar:
      add_parallel(outer_.size());
      add_anchors(outer_.size());
      break;
  }
}

void RowPart::mend_preferred() {
  std::vector<std::int32_t> choice = preferred();
  while (choice[vector_] > 0 && !legal(choice)) --choice[vector_];
  points_[vector_].preferred = choice[vector_];
}

RowPart::Mode RowPart::choose_mode() const {
  const Stage& s = stage();
  if (s.op.values.size() != 1 || s.iterations() < 1) return Mode::kScalar;
  int last = -1;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (s.extent(i) > 1) last = static_cast<int>(i);
  }
  if (!s.reduces()) {
    if (last < 0) return Mode::kScalar;
    return alone_ && walks_one_line(s) ? Mode::kLine : Mode::kPoint;
  }
  if (s.op.reduce_axes.empty()) return Mode::kScalar;
  const auto lanewise = [&](const Access& r) {
    const auto axis = static_cast<std::size_t>(last);
    return !r.irregular[axis] && (r.strides[axis] == 0 || r.strides[axis] == 1);
  };
  const bool varies =
      last >= 0 && std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
        return r.uses(static_cast<std::size_t>(last));
      });
  if (varies && std::all_of(s.reads.begin(), s.reads.end(), lanewise)) return Mode::kLanes;
  const std::size_t inner = s.axis_count() - 1;
  const bool contiguous = std::any_of(s.reads.begin(), s.reads.end(), [&](const Access& r) {
    return !r.irregular[inner] && r.strides[inner] == 1;
  });
  return contiguous ? Mode::kFold : Mode::kScalar;
}

void RowPart::find_axes() {
  const Stage& s = stage();
  const bool vectors = mode_ == Mode::kPoint || mode_ == Mode::kLanes;
  for (std::size_t i = 0; i < s.rank(); ++i) {
    if (s.extent(i) == 1) {
      units_.push_back(s.axis_name(i));
    } else {
      outer_.push_back(i);
    }
  }
  if (!vectors) return;
  last_ = outer_.back();
  outer_.pop_back();
}

void RowPart::add_parallel(std::size_t loops) {
  std::vector<std::int64_t> depths;
  for (std::size_t i = 0; i <= loops; ++i) depths.push_back(static_cast<std::int64_t>(i));
  if (target_.code_threads() == 1) depths.resize(1);
  const bool worth = worth_threads(stage().iterations() * (4 + stage().cost));
  parallel_ =
      add(number_decision(name() + ".parallel", PointKind::kParallel, depths, worth ? 1 : 0));
}

void RowPart::add_anchors(std::size_t loops) {
  if (loops > 1) anchor_names_.push_back("outer");
  if (loops > 0) anchor_names_.push_back("row");
}

void RowPart::add_line() {
  const auto total = static_cast<std::int64_t>(std::min(stage().elements(), 1e15));
  vector_ = add(number_decision(
      name() + ".vector", PointKind::kVector,
      multiples(lanes_, std::min<std::int64_t>(total, 256), {1, 2, 4, 8, 16}), 4 * lanes_));
  // Vectors per part that a thread takes.
  rows_ = add(number_decision(
      name() + ".chunk", PointKind::kTile,
      multiples(1, ceil_div(total, lanes_), {1, 4, 16, 32, 64, 128, 256, 512, 1024, 4096}), 1024));
  add_parallel(1);
}

void RowPart::add_vectors() {
  const Stage& s = stage();
  const std::int64_t extent = s.extent(last_);
  std::vector<std::int64_t> lengths = vector_lengths(extent, lanes_, std::max(64, 4 * lanes_));
  for (const std::int64_t n : {8 * lanes_, 16 * lanes_}) {
    if (n > lengths.back() && n <= std::min<std::int64_t>(extent, 256)) lengths.push_back(n);
  }
  vector_ = add(number_decision(name() + ".vector", PointKind::kVector, lengths, 4 * lanes_));
  if (!outer_.empty()) {
    has_rows_ = true;
    rows_ = add(number_decision(name() + ".rows", PointKind::kUnroll,
                                row_lengths(s.extent(outer_.back()), 8), 1));
  }
  if (s.reduces()) {
    std::vector<std::int64_t> windows = {1};
    for (std::size_t i = s.axis_count(); i-- > s.rank();) {
      const std::int64_t n = windows.back() * s.extent(i);
      if (n > 64) break;
      if (n > windows.back()) windows.push_back(n);
    }
    unroll_ = add(number_decision(name() + ".unroll", PointKind::kUnroll, windows, 1));
  }
  const std::size_t loops = std::max<std::size_t>(1, outer_.size());
  add_parallel(loops);
  add_anchors(loops);
}

void RowPart::add_fold() {
  const Stage& s = stage();
  std::int64_t depth = 1;
  for (const te::Axis& a : s.op.reduce_axes) depth *= a.extent;
  std::vector<std::int64_t> widths = {0};
  for (const std::int64_t f : {1, 2, 4, 8}) {
    if (kMinFold * f * lanes_ <= depth) widths.push_back(f * lanes_);
  }
  vector_ = add(number_decision(name() + ".fold", PointKind::kVector, widths, 4 * lanes_));
  const bool few = s.elements() < 2.0 * target_.code_threads();
  if (alone_ && few && target_.code_threads() > 1 && depth >= 64 * lanes_) {
    has_jobs_ = true;
    const std::int64_t cores = target_.code_threads();
    jobs_ = add(number_decision(name() + ".jobs", PointKind::kParallel,
                                {1, cores, 2 * cores, 4 * cores},
                                worth_threads(s.iterations()) ? cores : 1));
  }
  add_parallel(has_jobs_ ? 0 : outer_.size());
  if (!has_jobs_) add_anchors(outer_.size());
}

std::int64_t RowPart::code_of(std::int64_t length, std::int64_t rows, std::int64_t steps) const {
  const Stage& s = stage();
  // An exponential is as long as a chain of twenty operations.
  std::int64_t out = std::max(limits::length_of(s.nodes), static_cast<std::int64_t>(s.cost / 2));
  if (mode_ == Mode::kScalar) return out;
  out *= std::max<std::int64_t>(1, ceil_div(length, lanes_));
  if (mode_ == Mode::kLine || mode_ == Mode::kFold) return out;
  out *= rows * steps;
  return pads() ? 4 * out : out;  // conditions cut loops into before, inside and after
}

std::int64_t RowPart::code(Choice choice) const {
  const bool window = mode_ == Mode::kLanes;
  return code_of(mode_ == Mode::kScalar ? 1 : value(choice, vector_), rows(choice),
                 window ? value(choice, unroll_) : 1);
}

// The first value is the shortest; rows and windows begin with one.
std::int64_t RowPart::least_code() const {
  return code_of(mode_ == Mode::kScalar ? 1 : points_[vector_].values[0][0],
                 has_rows_ ? points_[rows_].values[0][0] : 1,
                 mode_ == Mode::kLanes ? points_[unroll_].values[0][0] : 1);
}

bool RowPart::pads() const {
  const auto& reads = stage().reads;
  return std::any_of(reads.begin(), reads.end(), [](const Access& r) { return r.conditional; });
}

const char* RowPart::refuse_tile(std::int64_t length, std::int64_t rows, std::int64_t steps,
                                 const Place& place) const {
  const std::int64_t code = code_of(length, rows, steps);
  if (code > place.most_code) return "too many copies of the stage";
  if (mode_ == Mode::kFold) return nullptr;
  const std::int64_t tile = ceil_div(length, lanes_) * rows;
  if (code > limits::kRowCode && tile > 1) return "too much code";
  const bool sums = mode_ == Mode::kLanes;
  return sums && !limits::fits_registers_beside(target_, tile, 1) ? "more vectors than registers"
                                                                  : nullptr;
}

// What is decided later can be one row, one step and no threads.
void RowPart::walk(std::span<std::int32_t> choice, const Place& place, Asker& asker) const {
  const auto ask = [&](std::size_t d, const auto& refusal) {
    choice[d] = asker.ask(d, [&](std::int32_t v) -> const char* {
      return refusal(points_[d].values[static_cast<std::size_t>(v)][0]);
    });
  };
  const auto free = [](std::int64_t) -> const char* { return nullptr; };
  const std::int64_t least_rows = has_rows_ ? points_[rows_].values[0][0] : 1;
  const std::int64_t least_steps = mode_ == Mode::kLanes ? points_[unroll_].values[0][0] : 1;
  if (mode_ != Mode::kScalar) {
    ask(vector_, [&](std::int64_t v) { return refuse_tile(v, least_rows, least_steps, place); });
  }
  if (has_rows_) {
    const std::int64_t length = value(choice, vector_);
    ask(rows_, [&](std::int64_t v) { return refuse_tile(length, v, least_steps, place); });
  }
  if (mode_ == Mode::kLanes) {
    const std::int64_t length = value(choice, vector_);
    ask(unroll_, [&](std::int64_t v) { return refuse_tile(length, rows(choice), v, place); });
  }
  if (has_jobs_ && value(choice, vector_) != 0) ask(jobs_, free);
  if (place.inside) return;
  const bool odd = has_rows_ && stage().extent(outer_.back()) % rows(choice) != 0;
  ask(parallel_, [&](std::int64_t depth) {
    const bool cut = odd && depth > 1 && static_cast<std::size_t>(depth) == outer_.size();
    return cut ? "the rows have a shorter last part" : nullptr;
  });
  if (mode_ == Mode::kLine && value(choice, parallel_) > 0) ask(rows_, free);
}

std::vector<Anchor> RowPart::write(Choice choice, const Anchor* at, Writer& w) const {
  std::vector<Anchor> anchors;
  switch (mode_) {
    case Mode::kLine:
      write_line(choice, w);
      break;
    case Mode::kPoint:
    case Mode::kLanes:
      anchors = write_vectors(choice, at != nullptr, w);
      break;
    case Mode::kFold:
      anchors = write_fold(choice, at != nullptr, w);
      break;
    case Mode::kScalar:
      anchors = write_scalar(choice, at != nullptr, w);
      break;
  }
  if (at) w.compute_at(name(), at->stage, at->loop);
  return anchors;
}

void RowPart::write_line(Choice choice, Writer& w) const {
  Loops all;
  for (std::size_t i = 0; i < stage().rank(); ++i) all.push_back(stage().axis_name(i));
  const std::string loop = w.fuse(name(), all);
  const std::int64_t step = value(choice, vector_);
  if (value(choice, parallel_) == 0) {
    w.vectorize(name(), w.split(name(), loop, {step})[1]);
    return;
  }
  const std::int64_t chunk = std::max<std::int64_t>(1, value(choice, rows_) * lanes_ / step);
  const Loops parts = w.split(name(), loop, {chunk, step});
  share_loops(w, name(), {parts[0]}, 1);
  w.vectorize(name(), parts[2]);
}

std::vector<Anchor> RowPart::share(Choice choice, const std::string& of, Loops loops, bool inside,
                                   Writer& w) const {
  if (loops.empty()) return {};
  const std::size_t count = loops.size();
  if (!inside) {
    loops =
        share_loops(w, of, std::move(loops), static_cast<std::size_t>(value(choice, parallel_)));
  }
  std::vector<Anchor> anchors;
  if (count > 1) anchors.push_back({of, loops.front()});
  anchors.push_back({of, loops.back()});
  return anchors;
}

Loops RowPart::reduce_names() const {
  Loops out;
  for (std::size_t i = stage().rank(); i < stage().axis_count(); ++i)
    out.push_back(stage().axis_name(i));
  return out;
}

std::vector<Anchor> RowPart::write_vectors(Choice choice, bool inside, Writer& w) const {
  const Stage& s = stage();
  const Loops vector = w.split(name(), s.axis_name(last_), {value(choice, vector_)});
  Loops outer, tile;
  for (const std::size_t i : outer_) outer.push_back(s.axis_name(i));
  if (rows(choice) > 1) {
    const Loops parts = w.split(name(), outer.back(), {rows(choice)});
    outer.back() = parts[0];
    tile.push_back(parts[1]);
  }
  Loops order = units_;
  order.insert(order.end(), outer.begin(), outer.end());
  order.push_back(vector[0]);
  const Loops reduce = reduce_names();
  order.insert(order.end(), reduce.begin(), reduce.end());
  order.insert(order.end(), tile.begin(), tile.end());
  order.push_back(vector[1]);
  w.reorder(name(), order);
  for (const std::string& loop : tile) w.unroll(name(), loop);
  if (s.reduces()) {
    std::int64_t window = value(choice, unroll_);
    for (std::size_t i = s.axis_count(); i-- > s.rank() && window > 1;) {
      w.unroll(name(), s.axis_name(i));
      window /= s.extent(i);
    }
  }
  w.vectorize(name(), vector[1]);
  if (outer.empty()) outer.push_back(vector[0]);
  return share(choice, name(), outer, inside, w);
}

std::vector<Anchor> RowPart::write_scalar(Choice choice, bool inside, Writer& w) const {
  Loops outer, order = units_;
  for (const std::size_t i : outer_) outer.push_back(stage().axis_name(i));
  order.insert(order.end(), outer.begin(), outer.end());
  const Loops reduce = reduce_names();
  order.insert(order.end(), reduce.begin(), reduce.end());
  if (!order.empty()) w.reorder(name(), order);
  return share(choice, name(), outer, inside, w);
}

RowPart::Folded RowPart::factor(Choice choice, Writer& w) const {
  const Stage& s = stage();
  Folded f{.stage = name()};
  for (const std::size_t i : outer_) f.outer.push_back(s.axis_name(i));
  const std::int64_t width = value(choice, vector_);
  Loops reduce = reduce_names();
  std::int64_t extent = s.extent(s.axis_count() - 1);
  std::string loop = reduce.back();
  if (extent >= 2 * width) {
    f.others.assign(reduce.begin(), reduce.end() - 1);
  } else {
    loop = w.fuse(name(), reduce);
    extent = 1;
    for (const te::Axis& a : s.op.reduce_axes) extent *= a.extent;
  }
  std::size_t rank = s.rank();
  if (has_jobs_ && value(choice, jobs_) > 1) {
    const std::int64_t part = ceil_div(ceil_div(extent, value(choice, jobs_)), width) * width;
    const Loops parts = w.split(name(), loop, {part});
    f.stage = w.rfactor(name(), parts[0], rank++);
    f.outer.push_back(parts[0]);
    loop = parts[1];
  }
  std::vector<std::int64_t> lengths;
  if (width > lanes_) lengths.push_back(lanes_);
  f.folding = fold_loop(w, f.stage, loop, rank, width, lengths);
  return f;
}

void RowPart::write_partial(const Folded& f, const std::string& attach, Writer& w) const {
  const auto write = [&](const std::string& of, const Loops& steps, const std::string& lane) {
    if (!attach.empty()) w.compute_at(of, f.stage, attach);
    Loops order = units_;
    order.insert(order.end(), f.outer.begin(), f.outer.end());
    order.insert(order.end(), steps.begin(), steps.end());
    order.push_back(lane);
    w.reorder(of, order);
    w.vectorize(of, lane);
  };
  Loops steps = f.others;
  steps.push_back(f.folding.outer);
  write(f.folding.partial, steps, f.folding.lane);
  for (const Fold& fold : f.folding.folds) {
    write(fold.stage, {fold.loop}, fold.lane);
    w.unroll(fold.stage, fold.loop);
  }
}

std::vector<Anchor> RowPart::write_fold(Choice choice, bool inside, Writer& w) const {
  const std::int64_t width = value(choice, vector_);
  if (width == 0) {
    if (!has_jobs_) return write_scalar(choice, inside, w);
    return {};
  }
  const Folded f = factor(choice, w);
  Loops order = units_;
  order.insert(order.end(), f.outer.begin(), f.outer.end());
  order.push_back(f.folding.last);
  w.reorder(f.stage, order);
  w.unroll(f.stage, f.folding.last);
  std::vector<Anchor> anchors;
  std::string attach = f.outer.empty() ? "" : f.outer.back();
  if (has_jobs_) {
    if (f.stage != name()) share_loops(w, f.stage, {f.outer.back()}, 1);
  } else {
    anchors = share(choice, f.stage, f.outer, inside, w);
    if (!anchors.empty()) attach = anchors.back().loop;
  }
  write_partial(f, attach, w);
  return anchors;
}

}  // namespace tessera::space
