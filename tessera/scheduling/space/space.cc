#include "tessera/scheduling/space/space.h"

#include <iterator>

namespace tessera::space {
namespace {

std::vector<std::unique_ptr<decide::Sketch>> as_points(
    std::vector<std::unique_ptr<Sketch>> sketches) {
  return {std::make_move_iterator(sketches.begin()), std::make_move_iterator(sketches.end())};
}

}  // namespace

Space::Space(te::Dag dag, target::Target target, std::vector<std::unique_ptr<Sketch>> sketches)
    : decide::Space(as_points(std::move(sketches))),
      dag_(std::move(dag)),
      target_(std::move(target)) {}

// All came as sketches of schedules.
const Sketch& Space::sketch(std::size_t index) const {
  return static_cast<const Sketch&>(*sketches().at(index));
}

Result<schedule::Schedule> Space::schedule(const Candidate& c) const {
  TESSERA_DO(check(c));
  return sketch(static_cast<std::size_t>(c.sketch)).write(c.choice);
}

}  // namespace tessera::space
