#include "tessera/scheduling/space/default_schedule.h"

#include "tessera/scheduling/space/reasoned.h"

namespace tessera::space {

Result<schedule::Schedule> default_schedule(const te::Dag& dag, const target::Target& target) {
  TESSERA_TRY(BestOutline best, best_outline(dag, target));
  return std::move(best.preferred);
}

Result<DefaultSchedule> lower_default(const te::Dag& dag, const target::Target& target) {
  TESSERA_TRY(BestOutline best, best_outline(dag, target));
  return DefaultSchedule{std::move(best.preferred), std::move(best.lowered)};
}

}  // namespace tessera::space
