#include "tessera/app/tune/after_tuning.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include <fmt/ranges.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/bench/machine.h"
#include "tessera/app/bench/peer.h"
#include "tessera/app/bench/peer_driver.h"
#include "tessera/machine/target/measured_as.h"

namespace tessera::app {
namespace {

constexpr double kPeakMostSeconds = 1, kPeersMostSeconds = 4;
// Of a budget: for the peak of the machine, for each model beside its peers.
constexpr double kPeakShare = 0.01, kPeersShare = 0.05;
constexpr double kOverrunShare = 0.05;  // what it may take beyond

double peers_limit_s(double budget_s) {
  return budget_s > 0 ? std::min(kPeersMostSeconds, kPeersShare * budget_s) : kPeersMostSeconds;
}

// One model beside its peers: they are started, and to build the model takes about as long as to
// time it.
constexpr double kPeerStartSeconds = 1.5;
double peers_s(double budget_s) { return kPeerStartSeconds + 2 * peers_limit_s(budget_s); }

}  // namespace

Result<bool> keep_unproved(const TuneResult& result, const std::string& path) {
  if (!result.unproved.tasks.empty()) {
    TESSERA_DO(plan::save_plan(result.unproved, path));
    return true;
  }
  const bool proved = result.state == TuneState::kDone &&
                      std::ranges::any_of(result.subjects, [](const SubjectReport& s) {
                        return s.checked && s.after_s > 0 && s.after_s < s.before_s;
                      });
  std::error_code ignored;
  if (proved) std::filesystem::remove(path, ignored);
  return false;
}

bool TuneDeadline::has_room(double seconds) const {
  return budget_s <= 0 ||
         seconds_since(start) + seconds < budget_s + std::max(0.5, kOverrunShare * budget_s);
}

std::vector<std::string> usable_peers(const std::vector<std::string>& names) {
  const bool all = names.size() == 1 && names[0] == "all";
  std::vector<std::string> peers;
  for (const std::string& name : all ? driver_peer_names() : names) {
    if (is_peer_built(name) || is_driver_peer(name)) peers.push_back(name);
  }
  return peers;
}

double after_tuning_s(double budget_s, std::size_t models, const std::vector<std::string>& peers) {
  if (budget_s <= 0) return 0;
  const double seconds = peers.empty() ? 0 : static_cast<double>(models) * peers_s(budget_s);
  return kPeakShare * budget_s + (seconds <= budget_s / 4 ? seconds : 0);
}

std::vector<PeerComparison> compare_peers(const TuneOptions& options, const plan::Plan& plan,
                                          const std::vector<std::string>& peers, int threads,
                                          const TuneDeadline& deadline,
                                          const PeerCallbacks& callbacks) {
  std::vector<PeerComparison> out;
  const auto schedules = PlanSchedules::make(plan, options.target, false);
  if (peers.empty() || !schedules) return out;
  for (const TuneSubject& subject : options.subjects) {
    if (subject.is_op) continue;
    const std::string& model = subject.name;
    if (!deadline.has_room(peers_s(deadline.budget_s))) {
      callbacks.left_out(model);
      continue;
    }
    callbacks.begin(model);
    ModelBenchOptions bench;
    bench.compile = subject.compile;
    bench.compile.plan = *schedules;
    bench.compile.cache = options.model.cache;
    bench.threads = threads;
    bench.peers = peers;
    bench.timing = {.samples = 11, .time_limit_s = peers_limit_s(options.budget_s)};
    const auto result = bench_model(model, bench);
    if (!result) {
      callbacks.note(fmt::format("{}: {}", model, result.error().message));
      continue;
    }
    for (const PeerResult& p : result->bench.peers) {
      if (p.absent.empty() && !p.verified) {
        callbacks.note(
            fmt::format("{}: the outputs of {} differ from ours; not compared", model, p.name));
      } else if (p.absent.empty()) {
        out.push_back({model, p.version.empty() ? p.name : p.version,
                       result->bench.median_us * 1e-6, p.median_us * 1e-6});
      }
    }
  }
  return out;
}

double peak_gflops(const target::Target& target, int threads, double budget_s) {
  if (const auto sheet = target::datasheet_gflops(target)) return *sheet;
  const double limit_s =
      budget_s > 0 ? std::min(kPeakMostSeconds, kPeakShare * budget_s) : kPeakMostSeconds;
  const Result<double> peak =
      measure_peak(DType::kF32, target, threads, {.samples = 5, .time_limit_s = limit_s});
  return peak ? *peak : 0;
}

}  // namespace tessera::app
