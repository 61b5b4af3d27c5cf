#include "tessera/lower/check_lowers.h"

#include "tessera/lower/lower.h"
#include "tessera/lower/lower_device.h"

namespace tessera::lower {

Result<void> check_lowers(const te::Dag& dag, const schedule::Schedule& schedule,
                          const target::Target& target) {
  if (target.is_gpu()) {
    TESSERA_TRY(const LoweredDevice lowered, lower_device(dag, schedule, target));
  } else {
    TESSERA_TRY(const Lowered lowered, lower(dag, schedule, target));
  }
  return {};
}

}  // namespace tessera::lower
