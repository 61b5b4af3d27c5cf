// What a run worker runs candidates on: the cores of this machine, or a device.
#pragma once

#include <memory>
#include <vector>

#include "tessera/trials/measure/messages.h"
#include "tessera/trials/measure/run_worker.h"

namespace tessera::measure {

// A candidate that can be called.
class LoadedCandidate {
 public:
  virtual ~LoadedCandidate() = default;
  // Calls it once on outputs that hold nothing; false with outcome and reason of what went wrong.
  virtual bool check(Measurement* m) = 0;
};

class RunStand {
 public:
  virtual ~RunStand() = default;

  // `item` must outlive the candidate.
  virtual Result<std::unique_ptr<LoadedCandidate>> load(const RunItem& item) = 0;
  // Of candidates that were checked.
  virtual void time_alone(LoadedCandidate& candidate, const Job& job, Measurement* m,
                          RunReply* reply) = 0;
  // Side by side, those that are not null; measurements as the candidates.
  virtual void time_together(const std::vector<std::unique_ptr<LoadedCandidate>>& candidates,
                             bool cold_caches, RunReply* reply) = 0;
  virtual void tidy() {}                        // after a request; no candidate is left
  virtual bool usable() const { return true; }  // false: nothing runs here any more
};

// A model that runs with candidates in the places of their tasks.
class InPlaceStand {
 public:
  virtual ~InPlaceStand() = default;
  // Tells the server what comes, so that it can set a deadline: a call of the item that is checked
  // (kCalling), or a run of the model (kTiming).
  using Announce = std::function<void(Kind kind, std::size_t item)>;

  // Items of one task take turns; measurements as the items, whose ids are set.
  virtual void run(const RunRequest& request, const Announce& announce, RunReply* reply) = 0;
};

// What stands are made of; must outlive them. `current` is the item of a request whose code runs,
// or kNoItem.
struct StandParts {
  const std::vector<te::Dag>& tasks;
  const target::Target& target;
  const MeasureOptions& options;
  const ExpectedOfTask& expected;
  volatile std::uint32_t* current;
};

std::unique_ptr<RunStand> make_cpu_stand(const StandParts& parts);
// The device at hand, opened here. Where there is none, every candidate fails with the reason.
std::unique_ptr<RunStand> make_device_stand(const StandParts& parts);

}  // namespace tessera::measure
