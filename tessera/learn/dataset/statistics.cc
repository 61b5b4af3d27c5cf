#include "tessera/learn/dataset/statistics.h"

#include <algorithm>
#include <map>
#include <set>

#include "tessera/support/quantile.h"

namespace tessera::dataset {
namespace {

NetworkStatistics of_network(const NetworkInfo& network, const Dataset& d,
                             const std::vector<TaskStatistics>& tasks) {
  NetworkStatistics out;
  out.name = network.name;
  out.tasks = network.weights.size();
  std::set<std::string> covered;
  for (const TaskStatistics& t : tasks) {
    const std::string& key = d.tasks[static_cast<std::size_t>(t.task)].key;
    if (!network.weights.contains(key)) continue;
    out.records += t.records;
    out.valid += t.valid;
    if (t.valid > 0) covered.insert(key);
  }
  out.covered = covered.size();
  return out;
}

// "cpu=NAME" of the text of a target; without one the text itself.
std::string processor_of(const std::string& target) {
  const std::size_t at = target.find("cpu=");
  if (at == std::string::npos) return target;
  return target.substr(at + 4, target.find(' ', at) - at - 4);
}

NetworkCoverage network_coverage(const Dataset& dataset, const NetworkInfo& network,
                                 const std::map<std::string, std::size_t>& numbers,
                                 const std::vector<bool>& timed) {
  NetworkCoverage c{.name = network.name};
  double all = 0, missing = 0;
  std::vector<std::pair<double, std::string>> tasks;
  for (const auto& [key, count] : network.weights) {
    if (count == 0) continue;
    const auto it = numbers.find(key);
    if (it == numbers.end()) {
      ++c.unknown;
      continue;
    }
    const double flops = count * dataset.tasks[it->second].flops;
    all += flops;
    if (timed[it->second]) continue;
    missing += flops;
    tasks.emplace_back(flops, dataset.tasks[it->second].name);
  }
  c.missing = all > 0 ? missing / all : 0;
  std::sort(tasks.rbegin(), tasks.rend());
  for (const auto& [flops, name] : tasks) {
    if (flops > 0.01 * all) c.tasks.push_back(name);
  }
  return c;
}

}  // namespace

Quantiles quantiles_of(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) { return quantile_of_sorted(values, share); };
  return {values.front(), at(0.25), at(0.5), at(0.75), values.back()};
}

Statistics statistics_of(const Dataset& d) {
  StatisticsCounter counter(d);
  for (const Example& e : d.examples) counter.add(e);
  return counter.finish();
}

StatisticsCounter::StatisticsCounter(const Dataset& header) : header_(header) {
  out_.machine_records.assign(header.machines.size(), 0);
}

void StatisticsCounter::add(const Example& e) {
  if (e.task != task_) end_task();
  task_ = e.task;
  ++out_.records;
  ++out_.outcomes[e.outcome];
  ++out_.machine_records[static_cast<std::size_t>(e.machine)];
  TaskStatistics& t = tasks_.try_emplace({e.task, e.machine}).first->second;
  ++t.records;
  if (!(e.seconds > 0)) return;
  ++out_.valid;
  ++t.valid;
  seconds_[e.machine].push_back(e.seconds);
}

void StatisticsCounter::end_task() {
  for (auto& [machine, seconds] : seconds_) {
    const Quantiles q = quantiles_of(std::move(seconds));
    TaskStatistics& t = tasks_[{task_, machine}];
    t.best_s = q.least;
    t.median_s = q.median;
  }
  seconds_.clear();
}

Statistics StatisticsCounter::finish() {
  end_task();
  std::vector<double> counts, spreads;
  for (auto& [place, t] : tasks_) {
    t.task = place.first;
    t.machine = place.second;
    if (t.valid > 0) spreads.push_back(t.median_s / t.best_s);
    counts.push_back(static_cast<double>(t.records));
    out_.tasks.push_back(t);
  }
  out_.records_a_task = quantiles_of(std::move(counts));
  out_.spread = quantiles_of(std::move(spreads));
  for (const NetworkInfo& n : header_.networks) {
    out_.networks.push_back(of_network(n, header_, out_.tasks));
  }
  return std::move(out_);
}

std::vector<NetworkCoverage> coverage_of(const Dataset& dataset,
                                         const std::vector<std::string>& networks,
                                         const std::string& machine) {
  std::vector<std::vector<bool>> timed(dataset.machines.size());  // by machine, then by task
  for (const Example& e : dataset.examples) {
    std::vector<bool>& tasks = timed[static_cast<std::size_t>(e.machine)];
    tasks.resize(dataset.tasks.size());
    if (e.seconds > 0) tasks[static_cast<std::size_t>(e.task)] = true;
  }
  std::map<std::string, std::size_t> numbers;
  for (std::size_t t = 0; t < dataset.tasks.size(); ++t) numbers[dataset.tasks[t].key] = t;
  std::vector<NetworkCoverage> out;
  for (std::size_t m = 0; m < timed.size(); ++m) {
    const std::string& target = dataset.machines[m].target;
    if (timed[m].empty() || target.find(machine) == std::string::npos) continue;
    for (const NetworkInfo& n : dataset.networks) {
      if (std::find(networks.begin(), networks.end(), n.name) == networks.end()) continue;
      out.push_back(network_coverage(dataset, n, numbers, timed[m]));
      out.back().machine = processor_of(target);
      out.back().threads = dataset.machines[m].threads;
    }
  }
  return out;
}

}  // namespace tessera::dataset
