// split, follow_split, follow_fused_split.
#include <algorithm>
#include <limits>

#include <fmt/ranges.h>

#include "tessera/scheduling/schedule/steps/step_text.h"

namespace tessera::schedule {
namespace {

const char* tail_text(Tail tail) {
  switch (tail) {
    case Tail::kGuard:
      return "";
    case Tail::kPeel:
      return " tail=peel";
    case Tail::kPad:
      return " tail=pad";
  }
  return "";
}

Tail take_tail(ArgReader& args) {
  if (args.take("tail=peel")) return Tail::kPeel;
  if (args.take("tail=pad")) return Tail::kPad;
  args.take("tail=guard");
  return Tail::kGuard;
}

// Splits `iter` of `stage` and records the relation for steps that follow it.
Result<void> split_iter(State& state, const std::string& stage_name, const std::string& iter_name,
                        const std::vector<std::int64_t>& lengths, bool from_outer, Tail tail) {
  TESSERA_TRY(Stage* const stage, state.stage(stage_name));
  TESSERA_TRY(const int id, stage->find_leaf(iter_name));
  const Iter parent = stage->iters[static_cast<std::size_t>(id)];
  if (parent.annotation != Annotation::kNone)
    return illegal("loop {} is already annotated", iter_name);
  if (lengths.empty()) return illegal("no lengths given");
  std::int64_t product = 1;
  for (const std::int64_t l : lengths) {
    if (l < 1) return illegal("length {} is not positive", l);
    if (l > std::numeric_limits<std::int32_t>::max() / product)
      return illegal("lengths are too large");
    product *= l;
  }
  if (tail == Tail::kPad && parent.reduce)
    return illegal("a reduce loop cannot be padded: it would add terms");
  const bool output = std::any_of(stage->op.outputs.begin(), stage->op.outputs.end(),
                                  [&](const ir::Buffer& b) { return state.dag.is_output(b); });
  if (tail == Tail::kPad && output) {
    return illegal("output stage {} cannot be padded: its storage belongs to the caller",
                   stage_name);
  }
  const std::int64_t rest = (parent.extent + product - 1) / product;
  std::vector<std::int64_t> extents = lengths;
  extents.insert(from_outer ? extents.end() : extents.begin(), rest);

  Relation relation{.kind = Relation::Kind::kSplit,
                    .from = {id},
                    .lengths = lengths,
                    .from_outer = from_outer,
                    .tail = tail};
  for (std::size_t part = 0; part < extents.size(); ++part) {
    relation.to.push_back(static_cast<int>(stage->iters.size()));
    stage->iters.push_back({.name = fmt::format("{}.{}", parent.name, part),
                            .extent = extents[part],
                            .reduce = parent.reduce});
  }
  const auto at = stage->leaves.begin() + stage->position(id);
  stage->leaves.insert(stage->leaves.erase(at), relation.to.begin(), relation.to.end());
  for (Stage& other : state.stages) {  // inside loop i means inside its innermost part
    if (other.attach.kind == Attach::Kind::kAt && other.attach.stage == stage_name &&
        other.attach.iter == id) {
      other.attach.iter = relation.to.back();
    }
  }
  for (Prefetch& p : stage->prefetches) p.iter = p.iter == id ? relation.to.back() : p.iter;
  if (const auto it = stage->auto_unroll.find(id); it != stage->auto_unroll.end()) {
    stage->auto_unroll[relation.to.front()] = it->second;
  }
  stage->relations.push_back(relation);
  state.splits.push_back(std::move(relation));
  return {};
}

Result<const Relation*> source_split(const State& state, int source) {
  if (source < 0 || source >= static_cast<int>(state.splits.size()) ||
      state.splits[static_cast<std::size_t>(source)].lengths.empty()) {
    return illegal("step {} is not an earlier split", source);
  }
  return &state.splits[static_cast<std::size_t>(source)];
}

}  // namespace

std::string Split::args() const {
  return fmt::format("{} {} {}{}{}", stage, iter, fmt::join(lengths, " "),
                     from_outer ? " outer" : "", tail_text(tail));
}

Result<void> Split::apply(State& state) const {
  return split_iter(state, stage, iter, lengths, from_outer, tail);
}

Result<Step> parse_split(ArgReader& args) {
  Split s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.lengths, args.numbers_until_word("length"));
  s.from_outer = args.take("outer");
  s.tail = take_tail(args);
  return Step(s);
}

std::string FollowSplit::args() const {
  return fmt::format("{} {} {} {}{}", stage, iter, source, parts, tail_text(tail));
}

Result<void> FollowSplit::apply(State& state) const {
  TESSERA_TRY(const Relation* const from, source_split(state, source));
  if (parts < 1 || parts > static_cast<int>(from->lengths.size())) {
    return illegal("step {} has {} lengths, not {}", source, from->lengths.size(), parts);
  }
  std::vector<std::int64_t> lengths(from->lengths.begin(), from->lengths.begin() + parts);
  for (std::size_t i = static_cast<std::size_t>(parts); i < from->lengths.size(); ++i)
    lengths.back() *= from->lengths[i];
  return split_iter(state, stage, iter, lengths, from->from_outer, tail);
}

Result<Step> parse_follow_split(ArgReader& args) {
  FollowSplit s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.source, args.small_number("source step"));
  TESSERA_TRY(s.parts, args.small_number("number of lengths"));
  s.tail = take_tail(args);
  return Step(s);
}

std::string FollowFusedSplit::args() const {
  return fmt::format("{} {} {} {}{}", stage, iter, level, fmt::join(sources, ","),
                     from_outer ? " outer" : "");
}

Result<void> FollowFusedSplit::apply(State& state) const {
  std::int64_t length = 1;
  if (sources.empty()) return illegal("no source steps given");
  for (const int source : sources) {
    TESSERA_TRY(const Relation* const from, source_split(state, source));
    if (level < 0 || level >= static_cast<int>(from->lengths.size())) {
      return illegal("step {} has no length at level {}", source, level);
    }
    length *= from->lengths[static_cast<std::size_t>(level)];
    if (length > std::numeric_limits<std::int32_t>::max()) return illegal("lengths are too large");
  }
  return split_iter(state, stage, iter, {length}, from_outer, Tail::kGuard);
}

Result<Step> parse_follow_fused_split(ArgReader& args) {
  FollowFusedSplit s;
  TESSERA_TRY(s.stage, args.word("stage"));
  TESSERA_TRY(s.iter, args.word("loop"));
  TESSERA_TRY(s.level, args.small_number("level"));
  TESSERA_TRY(s.sources, args.comma_list("source steps"));
  s.from_outer = args.take("outer");
  return Step(s);
}

}  // namespace tessera::schedule
