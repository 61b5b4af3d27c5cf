// What follows a tuning and belongs to its budget: the tuned models beside their peers, and the
// peak of the machine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/app/tune/tune.h"
#include "tessera/support/clock.h"

namespace tessera::app {

// Of the whole command.
struct TuneDeadline {
  Clock::time_point start = Clock::now();
  double budget_s = 0;  // 0: none

  // Whether what takes so long ends in time, or little later.
  bool has_room(double seconds) const;
};

// Those of the names ("all": every one that runs models) that are installed.
std::vector<std::string> usable_peers(const std::vector<std::string>& names);

// Seconds of the budget to keep back for what follows, for `models` beside their peers. Peers that
// would take too much of it are left out.
double after_tuning_s(double budget_s, std::size_t models, const std::vector<std::string>& peers);

// Writes the plan of what seemed faster and could not be shown to be, for who times it on a quiet
// machine: true. Where there is none and the tuned models are proved to be faster, that of an
// earlier tuning goes: nobody should take it for what this one left open.
Result<bool> keep_unproved(const TuneResult& result, const std::string& path);

// A tuned model beside a peer.
struct PeerComparison {
  std::string subject, peer;
  double ours_s = 0, theirs_s = 0;
};

struct PeerCallbacks {
  std::function<void(const std::string& model)> begin;
  // There is no time left for this model.
  std::function<void(const std::string& model)> left_out;
  std::function<void(const std::string&)> note;
};

// Every model of the options beside each peer, in one interleaved run each. Peers that compute
// something else are named and left out.
std::vector<PeerComparison> compare_peers(const TuneOptions& options, const plan::Plan& plan,
                                          const std::vector<std::string>& peers, int threads,
                                          const TuneDeadline& deadline,
                                          const PeerCallbacks& callbacks);

// In GFLOP/s of f32. Of CPUs measured, of GPUs by what the machine can start in a second; 0: not
// known.
double peak_gflops(const target::Target& target, int threads, double budget_s);

}  // namespace tessera::app
