// Which files a confined worker reaches, where the kernel has Landlock.
#pragma once

#include "tessera/trials/measure/confine.h"

namespace tessera::measure {

// For this thread and what it starts, for good. Needs no_new_privs. False: the kernel has no
// Landlock, or it is switched off.
bool restrict_files(Work work);

}  // namespace tessera::measure
