#include "tessera/space/default_schedule.h"

#include "tessera/space/reasoned.h"

namespace tessera::space {

Result<schedule::Schedule> default_schedule(const te::Dag& dag, const target::Target& target,
                                            Lowers lowers) {
  TESSERA_TRY(const Outline outline, best_outline(dag, target, lowers));
  Chooser chooser;
  return write_outline(outline, chooser);
}

}  // namespace tessera::space
