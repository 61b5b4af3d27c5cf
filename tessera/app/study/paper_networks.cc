#include "tessera/app/study/paper_networks.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include "tessera/app/report/bench_runs.h"
#include "tessera/app/report/bench_tables.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/support/rng.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;
using report::BenchRunFile;
using report::TimedModel;

Result<std::vector<BenchRunFile>> recorded_runs(const std::string& data) {
  std::error_code error;
  const fs::path folder(data);
  const bool is_dataset = fs::exists(folder / "dataset.json", error);
  const fs::path runs = is_dataset ? folder.parent_path() / "bench" / "results" : folder;
  auto out = report::read_bench_runs(runs.string());
  if (!out.ok())
    return out.error().with_context("--data names no recorded runs of `tessera bench`");
  return out;
}

// What the runs say of a network: the middle of them.
struct Timed {
  double ratio = 0;
  bool disturbed = true;  // every run
  std::string date;       // of the last
};

bool is_of(const TimedModel& m, const std::string& network, const NetworksSpec::Column& column) {
  return m.name == "zoo:" + network && m.device == column.device && m.dtype == "f32" &&
         m.batch == 1 && (m.device != "cpu" || m.threads == column.threads);
}

Result<Timed> timed(const std::vector<BenchRunFile>& runs, const std::string& network,
                    const NetworksSpec::Column& column) {
  std::string version;
  std::vector<double> ratios;
  Timed out;
  for (const BenchRunFile& file : runs) {  // the oldest first
    if (file.machine != column.machine) continue;
    for (const TimedModel& m : file.models) {
      if (!is_of(m, network, column)) continue;
      if (file.version != version) {
        ratios.clear();
        out.disturbed = true;
      }
      version = file.version;
      for (const report::PeerTime& p : m.peers) {
        if (p.name != column.peer || !p.same_precision) continue;
        ratios.push_back(p.ratio);
        out.disturbed = out.disturbed && !m.trusted;
        out.date = file.date.substr(0, file.date.find('T'));
      }
    }
  }
  if (ratios.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "no recorded run has {} on {} beside {}",
                      network, column.machine, column.peer);
  }
  out.ratio = report::spread(std::move(ratios)).middle;
  return out;
}

// A candidate that was timed in both ways.
struct Kernel {
  double alone_s = 0, inside_s = 0;
};
struct Step {
  int uses = 0;
  std::vector<Kernel> kernels;  // the fastest alone first
};
using Network = std::vector<Step>;

// By task and candidate.
std::map<std::pair<std::string, std::string>, double> times_of(const dataset::Dataset& data,
                                                               const DrawsSpec& spec) {
  std::map<std::pair<std::string, std::string>, double> out;
  for (const dataset::Example& e : data.examples) {
    const dataset::MachineInfo& m = data.machines[static_cast<std::size_t>(e.machine)];
    if (e.seconds <= 0 || m.threads != spec.threads ||
        m.target.find(spec.machine) == std::string::npos)
      continue;
    out[{data.tasks[static_cast<std::size_t>(e.task)].key, e.candidate}] =
        static_cast<double>(e.seconds);
  }
  return out;
}

// Those in which something can be chosen; tasks without a choice are left out.
std::vector<Network> networks_of(const dataset::Dataset& alone, const dataset::Dataset& inside,
                                 const DrawsSpec& spec) {
  const auto alone_s = times_of(alone, spec);
  std::map<std::string, std::vector<Kernel>> kernels;
  for (const auto& [which, seconds] : times_of(inside, spec)) {
    const auto found = alone_s.find(which);
    if (found != alone_s.end()) kernels[which.first].push_back({found->second, seconds});
  }
  std::vector<Network> out;
  for (const dataset::NetworkInfo& network : inside.networks) {
    Network steps;
    for (const auto& [key, uses] : network.weights) {
      const auto found = kernels.find(key);
      if (uses == 0 || found == kernels.end() || found->second.size() < 2) continue;
      steps.push_back({uses, found->second});
      std::stable_sort(steps.back().kernels.begin(), steps.back().kernels.end(),
                       [](const Kernel& a, const Kernel& b) { return a.alone_s < b.alone_s; });
    }
    if (!steps.empty()) out.push_back(std::move(steps));
  }
  return out;
}

// With one kernel of each step.
double seconds_of(const Network& network, const std::function<std::size_t(const Step&)>& pick) {
  double out = 0;
  for (const Step& step : network) out += step.uses * step.kernels[pick(step)].inside_s;
  return out;
}

// By column: the logarithm of how many times as fast the best of so many draws is.
std::vector<double> gains_of(const Network& network, std::size_t fastest, const DrawsSpec& spec,
                             Rng* rng) {
  const double first = seconds_of(network, [](const Step&) { return std::size_t{0}; });
  const auto draw = [&](const Step& step) {
    return static_cast<std::size_t>(
        rng->below(static_cast<std::int64_t>(std::min(fastest, step.kernels.size()))));
  };
  std::vector<double> out;
  double best = first;  // which stays if no draw beats it
  std::int64_t drawn = 0;
  for (const std::int64_t draws : spec.draws) {
    for (; drawn < draws; ++drawn) best = std::min(best, seconds_of(network, draw));
    out.push_back(std::log(first / best));
  }
  return out;
}

}  // namespace

Result<StudyResult> networks_study(const NetworksSpec& spec, const StudyOptions& options) {
  TESSERA_TRY(const std::vector<BenchRunFile> runs, recorded_runs(options.data));
  StudyResult out;
  out.measure = "network";
  std::vector<double> logs(spec.columns.size());
  for (const NetworksSpec::Column& c : spec.columns) out.columns.emplace_back(c.name);
  int disturbed = 0;
  std::string date;
  for (const std::string& network : spec.networks) {
    std::vector<double> values;
    for (const NetworksSpec::Column& column : spec.columns) {
      TESSERA_TRY(const Timed found, timed(runs, network, column));
      disturbed += found.disturbed ? 1 : 0;
      date = std::max(date, found.date);
      logs[values.size()] += std::log(found.ratio) / static_cast<double>(spec.networks.size());
      values.push_back(found.ratio);
    }
    out.rows.push_back(single_row(network, values));
  }
  for (double& v : logs) v = std::exp(v);
  out.rows.push_back(single_row("geometric mean", logs));
  out.data = fmt::format("recorded {}, {} of {} beside other work", date, disturbed,
                         spec.networks.size() * spec.columns.size());
  return out;
}

Result<StudyResult> draws_study(const DrawsSpec& spec, const StudyOptions& options) {
  const fs::path folder(options.data);
  TESSERA_TRY(const dataset::Dataset alone, dataset::load((folder / spec.alone).string()));
  TESSERA_TRY(const dataset::Dataset inside, dataset::load((folder / spec.inside).string()));
  const std::vector<Network> networks = networks_of(alone, inside, spec);
  if (networks.empty()) {
    return make_error(ErrorCode::kInvalidArgument,
                      "{}: no task has two candidates that were timed alone and in networks",
                      options.data);
  }
  StudyResult out;
  std::size_t steps = 0;
  for (const Network& network : networks) steps += network.size();
  out.data = fmt::format("{} networks, {} choices", networks.size(), steps);
  out.machine = fmt::format("{} with {} thread", spec.machine, spec.threads);
  out.seeds = options.all_seeds();
  out.measure = "drawn from";
  for (const std::int64_t n : spec.draws) out.columns.push_back(fmt::format("{}", n));
  for (const std::size_t fastest : spec.fastest) {
    StudyRow row{fmt::format("the top {}", fastest), {}};
    row.values.resize(spec.draws.size());
    for (const std::uint64_t seed : out.seeds) {
      Rng rng(seed);
      std::vector<double> logs(spec.draws.size());
      for (const Network& network : networks) {
        const std::vector<double> gains = gains_of(network, fastest, spec, &rng);
        for (std::size_t c = 0; c < gains.size(); ++c)
          logs[c] += gains[c] / static_cast<double>(networks.size());
      }
      for (std::size_t c = 0; c < logs.size(); ++c) row.values[c].push_back(std::exp(logs[c]));
    }
    out.rows.push_back(std::move(row));
  }
  return out;
}

}  // namespace tessera::app
