#include "tests/measure/workers.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include <dirent.h>
#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/space/default_schedule.h"

namespace tessera::measure {
namespace {

struct Process {
  pid_t parent = 0;
  char state = 'Z';
  std::string name;
};

// The name is in parentheses and may contain anything.
Process read_process(const std::string& pid) {
  std::ifstream file("/proc/" + pid + "/stat");
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::size_t open = all.find('('), close = all.rfind(')');
  Process p;
  if (open == std::string::npos || close == std::string::npos) return p;
  p.name = all.substr(open + 1, close - open - 1);
  std::stringstream rest(all.substr(close + 1));
  rest >> p.state >> p.parent;
  return p;
}

}  // namespace

te::Dag dag_of(const char* spec) { return te::make_dag(te::parse_op_spec(spec).value()).value(); }

schedule::Schedule default_steps(const te::Dag& dag) {
  return reasoned(dag, target::host()).value();
}

Result<schedule::Schedule> reasoned(const te::Dag& dag, const target::Target& target) {
  return space::default_schedule(dag, target);
}

schedule::Schedule steps(const std::string& text) {
  return schedule::schedule_from_text(text).value();
}

std::unique_ptr<Measurer> start(const std::vector<te::Dag>& tasks, MeasureOptions options) {
  std::vector<MeasuredTask> named;
  for (const te::Dag& dag : tasks) {
    named.push_back({named.empty() ? "" : std::to_string(named.size()), dag});
  }
  options.reference_schedule = reasoned;
  auto measurer = start_local_measurer(named, target::host(), options);
  EXPECT_TRUE(measurer.ok()) << measurer.error().message;
  return std::move(measurer).value();
}

std::vector<Measurement> collect_all(Measurer& measurer) {
  std::vector<Measurement> all;
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (measurer.pending() > 0 && std::chrono::steady_clock::now() < end) {
    for (Measurement& m : measurer.collect(1)) all.push_back(std::move(m));
  }
  EXPECT_EQ(measurer.pending(), 0u);
  std::ranges::sort(all, {}, &Measurement::id);
  return all;
}

Measurement measure_one(Measurer& measurer, Trial trial) {
  measurer.submit({std::move(trial)});
  const std::vector<Measurement> all = collect_all(measurer);
  EXPECT_EQ(all.size(), 1u);
  return all.empty() ? Measurement{.outcome = Outcome::kWorkerLost} : all[0];
}

std::vector<pid_t> descendants(pid_t ancestor, const std::string& name) {
  std::map<pid_t, Process> processes;
  DIR* folder = opendir("/proc");
  while (const dirent* entry = folder ? readdir(folder) : nullptr) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0) processes[pid] = read_process(entry->d_name);
  }
  if (folder) closedir(folder);
  std::vector<pid_t> found;
  for (const auto& [pid, process] : processes) {
    if (process.state == 'Z' || (!name.empty() && process.name != name)) continue;
    pid_t up = process.parent;
    while (up != ancestor && processes.count(up) != 0) up = processes[up].parent;
    if (up == ancestor) found.push_back(pid);
  }
  return found;
}

bool is_alive(pid_t pid) {
  const Process p = read_process(std::to_string(pid));
  return p.state != 'Z' && p.state != 'X';
}

bool eventually(const std::function<bool()>& condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

}  // namespace tessera::measure
