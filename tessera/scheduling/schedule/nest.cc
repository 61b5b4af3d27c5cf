#include "tessera/scheduling/schedule/nest.h"

#include <algorithm>
#include <iterator>

namespace tessera::schedule {

const Stage* stage_around(const State& state, const Stage& stage) {
  return stage.attach.kind == Attach::Kind::kAt ? state.find(stage.attach.stage) : nullptr;
}

std::vector<NestLoop> loops_around(const State& state, const Stage& stage) {
  std::vector<NestLoop> out;
  bool shared = false;
  const Stage* inner = &stage;
  while (const Stage* outer = stage_around(state, *inner)) {
    shared = shared || inner->scope == "shared";
    for (int p = outer->position(inner->attach.iter); p >= 0; --p) {
      NestLoop& loop =
          out.emplace_back(NestLoop{outer, outer->leaves[static_cast<std::size_t>(p)]});
      loop.together = shared && is_thread(loop.it().annotation);
    }
    inner = outer;
  }
  std::reverse(out.begin(), out.end());
  return out;
}

Result<std::vector<NestLoop>> loops_of_visit(const State& state, const Stage& stage,
                                             const Stage& reader) {
  const std::vector<NestLoop> around = loops_around(state, stage);
  std::vector<NestLoop> loops = loops_around(state, reader);
  for (const int leaf : reader.leaves) loops.push_back({&reader, leaf});
  const auto same = [](const NestLoop& a, const NestLoop& b) {
    return a.stage == b.stage && a.iter == b.iter;
  };
  if (loops.size() < around.size() ||
      !std::equal(around.begin(), around.end(), loops.begin(), same)) {
    return make_error(ErrorCode::kIllegalSchedule,
                      "stage {} is computed at loop {} of {}, but {} uses it outside", stage.name(),
                      around.back().it().name, stage.attach.stage, reader.name());
  }
  std::vector<NestLoop> out(loops.begin() + static_cast<std::ptrdiff_t>(around.size()),
                            loops.end());
  std::copy_if(around.begin(), around.end(), std::back_inserter(out),
               [](const NestLoop& l) { return l.together; });
  return out;
}

}  // namespace tessera::schedule
