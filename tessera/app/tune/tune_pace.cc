#include "tessera/app/tune/tune_pace.h"

#include <algorithm>

#include "tessera/machine/target/cpus.h"

namespace tessera::app {
namespace {

// Candidates for a device are wanted faster than one thread judges them; builders wait meanwhile.
void prepare_for_device(search::LearnerOptions* learning) {
  constexpr int kModelThreads = 4, kFeatureThreads = 16;
  learning->features = "launch";
  learning->threads = std::clamp(target::usable_cpus() / 4, 1, kModelThreads);
  learning->feature_threads = std::clamp(target::usable_cpus() / 2, 1, kFeatureThreads);
}

}  // namespace

const TunePace& pace_of(const target::Target& target) {
  static const TunePace processors{.on_processors = true,
                                   .trial_s = 0.03,
                                   .round_most = 64,
                                   .waiting = 4,
                                   .stop_after = 512,
                                   .prepare = [](search::LearnerOptions*) {}};
  // Trials are short there. Each of many builders has a candidate, and another one waits.
  static const TunePace device{.on_processors = false,
                               .trial_s = 0.01,
                               .round_most = 128,
                               .waiting = 2 * static_cast<std::size_t>(target::usable_cpus()),
                               .stop_after = 2048,
                               .prepare = prepare_for_device};
  return target.is_gpu() ? device : processors;
}

}  // namespace tessera::app
