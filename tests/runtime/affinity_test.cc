#include "tessera/machine/runtime/affinity.h"

#include <thread>

#include <gtest/gtest.h>

#include "tessera/machine/runtime/thread_pool.h"
#include "tessera/machine/target/cpus.h"

namespace tessera::runtime {
namespace {

int allowed_count() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  EXPECT_EQ(sched_getaffinity(0, sizeof(mask), &mask), 0);
  return CPU_COUNT(&mask);
}

TEST(Affinity, PinsToTheChosenCore) {
  const std::vector<int>& cpus = target::cpu_order();
  std::thread([&] {
    for (std::size_t core = 0; core < cpus.size() + 1; ++core) {
      ASSERT_TRUE(pin_current_thread(static_cast<int>(core)).ok());
      EXPECT_EQ(sched_getcpu(), cpus[core % cpus.size()]);
    }
  }).join();
}

TEST(Affinity, RefusesNegativeCores) {
  const Result<void> pinned = pin_current_thread(-1);
  ASSERT_FALSE(pinned.ok());
  EXPECT_EQ(pinned.error().code, ErrorCode::kInvalidArgument);
}

TEST(Affinity, LeavesTheFirstCores) {
  const int all = static_cast<int>(target::cpu_order().size());
  std::thread([&] {
    ASSERT_TRUE(leave_cores(all).ok());
    EXPECT_EQ(allowed_count(), all);
    ASSERT_TRUE(leave_cores(all - 1).ok());
    EXPECT_EQ(allowed_count(), 1);
    EXPECT_EQ(sched_getcpu(), target::cpu_order().back());
    std::thread([] { EXPECT_EQ(allowed_count(), 1); }).join();
    ASSERT_TRUE(leave_cores(-1).ok());
    EXPECT_EQ(allowed_count(), all);
  }).join();
}

TEST(Affinity, ScopeGivesTheMaskBack) {
  const int before = allowed_count();
  {
    const ScopedAffinity scope;
    ASSERT_TRUE(pin_current_thread(0).ok());
    EXPECT_EQ(allowed_count(), 1);
  }
  EXPECT_EQ(allowed_count(), before);
}

TEST(Affinity, PinnedPoolRestoresItsCaller) {
  const int before = allowed_count();
  {
    ThreadPool pool({.threads = 2, .pin = true});
    EXPECT_EQ(allowed_count(), 1);
  }
  EXPECT_EQ(allowed_count(), before);
}

}  // namespace
}  // namespace tessera::runtime
