#include "tessera/scheduling/space/sketch.h"

namespace tessera::space {

const char* Sketch::value_before(const Point& point) const {
  struct Later {
    const char *point, *value;
  };
  static constexpr Later kLater[] = {
      {".prefetch_next", "no"}, {".turn_a", "no"}, {".own_copies", "no"}, {".parts", "1"}};
  for (const Later& later : kLater) {
    if (point.name.ends_with(later.point)) return later.value;
  }
  return nullptr;
}

}  // namespace tessera::space
