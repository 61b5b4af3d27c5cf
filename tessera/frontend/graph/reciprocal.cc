#include "tessera/frontend/graph/reciprocal.h"

#include <cmath>

#include "tessera/support/float_format.h"

namespace tessera::graph {

std::optional<HostTensor> reciprocal(const HostTensor& c, bool may_round) {
  HostTensor out(c.dtype(), c.shape());
  for (std::int64_t i = 0; i < c.size(); ++i) {
    const double v = c.get_float(i);
    int exponent = 0;
    const bool exact = std::abs(std::frexp(v, &exponent)) == 0.5;
    if (!std::isfinite(v) || v == 0 || (!exact && !may_round)) return std::nullopt;
    out.set_float(i, 1 / v);
    const double r = std::abs(out.get_float(i));
    if (!std::isfinite(r) || r < float_format(c.dtype()).smallest_normal()) return std::nullopt;
  }
  return out;
}

}  // namespace tessera::graph
