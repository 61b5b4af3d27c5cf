#include "tessera/app/bench/run_together.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tessera/support/clock.h"

namespace tessera::app {
namespace {

struct Team {
  const std::function<void(int)>& work;
  int threads;
  std::atomic<int> arrived{0};
  std::vector<Clock::time_point> begin, end;

  void take_part(int worker) {
    arrived.fetch_add(1);
    // More threads than processors must take turns.
    const Clock::time_point patience = Clock::now() + std::chrono::microseconds(200);
    while (arrived.load(std::memory_order_acquire) < threads) {
      if (Clock::now() > patience) std::this_thread::yield();
    }
    const auto at = static_cast<std::size_t>(worker);
    begin[at] = Clock::now();
    work(worker);
    end[at] = Clock::now();
  }
};

}  // namespace

double run_together(runtime::ThreadPool& pool, const std::function<void(int worker)>& work) {
  const auto threads = static_cast<std::size_t>(pool.threads());
  Team team{work,
            pool.threads(),
            {},
            std::vector<Clock::time_point>(threads),
            std::vector<Clock::time_point>(threads)};
  // Nobody leaves before all have come, so each thread runs one iteration.
  const tsr_body body = [](void* closure, std::int64_t, std::int64_t, std::int32_t worker) {
    static_cast<Team*>(closure)->take_part(worker);
  };
  pool.parallel_for(body, &team, pool.threads());
  return seconds_between(*std::ranges::min_element(team.begin),
                         *std::ranges::max_element(team.end));
}

}  // namespace tessera::app
