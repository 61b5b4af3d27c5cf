// The space of a task: sketches of its schedules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/machine/target/target.h"
#include "tessera/scheduling/decide/space.h"
#include "tessera/scheduling/space/sketch.h"

namespace tessera::space {

struct SpaceOptions {
  // Which sources to use, by name; empty: all. "reasoned", "rules", "templates".
  std::vector<std::string> sources;
};

// The preferred candidate is the same schedule as default_schedule.
class Space : public decide::Space {
 public:
  Space(te::Dag dag, target::Target target, std::vector<std::unique_ptr<Sketch>> sketches);

  const te::Dag& dag() const { return dag_; }
  const target::Target& target() const { return target_; }
  const Sketch& sketch(std::size_t index) const;

  Result<schedule::Schedule> schedule(const Candidate& candidate) const;

 private:
  te::Dag dag_;
  target::Target target_;
};

// Every verified Dag has one, if only with a single point. Errors as default_schedule.
Result<Space> make_space(const te::Dag& dag, const target::Target& target,
                         const SpaceOptions& options = {});

}  // namespace tessera::space
