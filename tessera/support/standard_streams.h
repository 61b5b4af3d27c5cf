// Standard streams that a process cannot use, and need not die of.
#pragma once

namespace tessera {

// To be called first in main. Where standard input, output or error is closed, its number is taken
// by something that is empty and cannot be written, so that no file that is opened later gets it;
// only what goes to stderr is dropped without an error. So are messages that stderr does not take,
// such as those to a log on a full disk: fmt throws there, and a tuning of hours would end.
void guard_standard_streams();

}  // namespace tessera
