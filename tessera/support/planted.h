// Bugs on purpose, by which the fuzzers are judged: tests/fuzz/random_graphs must find them. They
// exist only in builds with the option TESSERA_PLANTED_BUGS (cmake/PlantedBugs.cmake lists the
// sources that have one), and there only the one that TESSERA_PLANTED_BUG names.
#pragma once

#ifdef TESSERA_PLANTED_BUGS
#include <cstdlib>
#endif

namespace tessera {

#ifdef TESSERA_PLANTED_BUGS
inline bool planted(int bug) {
  static const char* const chosen = std::getenv("TESSERA_PLANTED_BUG");
  static const int number = chosen ? std::atoi(chosen) : 0;
  return number == bug;
}
#else
constexpr bool planted(int /*bug*/) { return false; }
#endif

}  // namespace tessera
