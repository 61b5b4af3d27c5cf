#include "tessera/scheduling/space/share.h"

#include <algorithm>

namespace tessera::space {
namespace {

// Operations below which threads are not even tried.
constexpr double kMinShared = 4e4;
constexpr std::int64_t kPartsPerCore = 4;

bool is_served(const Context& c, const std::string& stage) {
  return std::find(c.served.begin(), c.served.end(), stage) != c.served.end();
}

}  // namespace

bool may_share(const Context& context, const std::string& stage, double operations) {
  return context.target.code_threads() > 1 && operations > kMinShared && !is_served(context, stage);
}

Sharing choose_sharing(Context& context, const std::string& stage, double operations) {
  static constexpr const char* kWords[] = {"none", "even", "one", "two", "three"};
  int word = worth_threads(operations) && !is_served(context, stage) ? 1 : 0;
  if (may_share(context, stage, operations))
    word = context.chooser.word(stage, "parallel", PointKind::kParallel, word, kWords);
  return {.parallel = word > 0, .depth = std::max(0, word - 1)};
}

std::int64_t wanted_parts(const Context& context) {
  return context.target.code_threads() > 1 ? kPartsPerCore * context.target.code_threads() : 1;
}

std::vector<OuterLoop> share_out(Context& context, const std::string& stage, Sharing sharing,
                                 std::vector<OuterLoop> outer, std::size_t limit) {
  if (!sharing.parallel) return outer;
  limit = std::min(limit, outer.size());
  // Loops of one iteration in front share nothing out.
  std::size_t first = 0;
  while (first < limit && outer[first].count == 1) ++first;
  if (first >= limit) return outer;
  std::size_t last = first;
  std::int64_t count = outer[first].count;
  const auto wants_more = [&] {
    if (sharing.depth == 0) return count < wanted_parts(context);
    return last + 1 - first < static_cast<std::size_t>(sharing.depth);
  };
  while (last + 1 < limit && wants_more()) {
    ++last;
    count *= outer[last].count;
  }
  Loops fused;
  for (std::size_t i = first; i <= last; ++i) fused.push_back(outer[i].name);
  const OuterLoop loop{share_loops(context.writer, stage, fused, fused.size())[0], count};
  outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(first),
              outer.begin() + static_cast<std::ptrdiff_t>(last) + 1);
  outer.insert(outer.begin() + static_cast<std::ptrdiff_t>(first), loop);
  return outer;
}

Loops share_loops(Writer& writer, const std::string& stage, Loops loops, std::size_t count) {
  count = std::min(count, loops.size());
  if (count == 0) return loops;
  const auto end = loops.begin() + static_cast<std::ptrdiff_t>(count);
  const std::string shared = writer.fuse(stage, Loops(loops.begin(), end));
  writer.parallel(stage, shared);
  loops.erase(loops.begin(), end);
  loops.insert(loops.begin(), shared);
  return loops;
}

Loops names_of(const std::vector<OuterLoop>& loops) {
  Loops out;
  for (const OuterLoop& l : loops) out.push_back(l.name);
  return out;
}

}  // namespace tessera::space
