#include "tessera/scheduling/space/fold.h"

namespace tessera::space {

Folding fold_loop(Writer& w, const std::string& stage, const std::string& loop, std::size_t axis,
                  std::int64_t width, std::span<const std::int64_t> lengths) {
  Folding out;
  const Loops steps = w.split(stage, loop, {width});
  out.outer = steps[0];
  out.lane = steps[1];
  out.partial = w.rfactor(stage, out.lane, axis);
  out.last = out.lane;
  for (const std::int64_t length : lengths) {
    const Loops fold = w.split(stage, out.last, {length});
    const int repeat = static_cast<int>(out.folds.size()) + 2;
    out.folds.push_back({w.rfactor(stage, fold[1], axis, repeat), fold[0], fold[1]});
    out.last = fold[1];
  }
  return out;
}

}  // namespace tessera::space
