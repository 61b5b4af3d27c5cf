// Whether tests of confined processes may be skipped.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tessera/trials/measure/confine.h"

namespace tessera::testing {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kIsSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kIsSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kIsSanitized = false;
#endif

// Whether the kernel can end processes by what they call.
inline bool kernel_filters_calls() {
  const std::uint32_t action = SECCOMP_RET_KILL_PROCESS;
  return syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}

// Whether processes are confined here. Where the kernel has a filter of system calls that must not
// fail, but for sanitizers, which do not bear it.
inline bool is_confined() {
  const std::string& note = measure::confinement_note();
  if (note.empty()) return true;
  EXPECT_TRUE(kIsSanitized || !kernel_filters_calls()) << note;
  return false;
}

}  // namespace tessera::testing
