// Loaded before the C library, it makes the clock of a program differ by TESSERA_TEST_HOURS_OFF
// hours, as on a machine that nobody set.
#include <cstdlib>
#include <ctime>

#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

std::time_t offset_s() {
  static const std::time_t seconds = [] {
    const char* hours = std::getenv("TESSERA_TEST_HOURS_OFF");
    return hours == nullptr ? 0 : 3600 * std::atoi(hours);
  }();
  return seconds;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const long failed = syscall(SYS_clock_gettime, clock, now);
  if (failed == 0 && clock == CLOCK_REALTIME) now->tv_sec += offset_s();
  return static_cast<int>(failed);
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec exact{};
  const int failed = clock_gettime(CLOCK_REALTIME, &exact);
  now->tv_sec = exact.tv_sec;
  now->tv_usec = exact.tv_nsec / 1000;
  return failed;
}

std::time_t time(std::time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}

}  // extern "C"
