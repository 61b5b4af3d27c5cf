// A space in which some decisions are not open.
#pragma once

#include "tessera/scheduling/space/space.h"

namespace tessera::search {

// Decisions of the kind have their preferred value and no other. Candidates differ from those of
// `space`, which must outlive it; their text and their schedules are the same.
space::Space with_preferred(const space::Space& space, decide::PointKind kind);

}  // namespace tessera::search
