// A tuning and agents of one process, which measure what a test says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/lang/te/op_spec.h"
#include "tessera/trials/fleet/agent.h"
#include "tessera/trials/fleet/fleet_measurer.h"
#include "tests/measure/fake_measurer.h"

namespace tessera::fleet {

// An agent in a thread of its own.
class ThreadAgent {
 public:
  explicit ThreadAgent(AgentOptions options) : options_(std::move(options)) {
    thread_ = std::thread([this] {
      totals_ = run_agent(options_, {.stop = [this] { return stop_.load(); },
                                     .note = [](const std::string&) {},
                                     .progress =
                                         [this](const AgentProgress& p) {
                                           const std::lock_guard<std::mutex> lock(mutex_);
                                           progress_ = p;
                                         }});
    });
  }
  ~ThreadAgent() { (void)end(); }
  ThreadAgent(const ThreadAgent&) = delete;
  ThreadAgent& operator=(const ThreadAgent&) = delete;

  const Result<AgentTotals>& end() {
    stop_ = true;
    return join();
  }
  AgentProgress progress() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return progress_;
  }
  // Without being told to end.
  const Result<AgentTotals>& join() {
    if (thread_.joinable()) thread_.join();
    return totals_;
  }

 private:
  AgentOptions options_;
  std::atomic<bool> stop_ = false;
  Result<AgentTotals> totals_ = AgentTotals();
  std::mutex mutex_;
  AgentProgress progress_;  // guarded by mutex_
  std::thread thread_;
};

inline te::Dag small_dag() {
  return te::make_dag(te::parse_op_spec("matmul:M=8,N=8,K=8").value()).value();
}

inline AgentOptions agent_at(const std::string& place, const std::string& name,
                             measure::FakeMeasurer::Answer answer) {
  AgentOptions o;
  o.database = place;
  o.name = name;
  o.version = "test";
  o.target = target::host();
  o.threads = 2;
  o.lease = std::chrono::milliseconds(1'000);
  o.start_measurer =
      [answer = std::move(answer)](
          std::vector<measure::MeasuredTask> tasks, const target::Target&,
          const measure::MeasureOptions&) -> Result<std::unique_ptr<measure::Measurer>> {
    EXPECT_EQ(tasks.size(), 1u);
    return std::unique_ptr<measure::Measurer>(std::make_unique<measure::FakeMeasurer>(answer));
  };
  return o;
}

inline void answer_quickly(const measure::Trial& trial, bool, measure::Measurement* m) {
  m->samples_s = {1e-3 * (1 + static_cast<double>(trial.steps.steps.size()))};
  m->calibration_s = 1e-5;
}

inline FleetOptions fleet_at(const std::string& place, const std::string& agents = "any") {
  FleetOptions o;
  o.database = place;
  o.name = "a tuning";
  o.version = "test";
  o.agents = choice_from_text(agents).value();
  o.patience_s = 20;
  return o;
}

inline Result<std::unique_ptr<measure::Measurer>> tuning_at(const FleetOptions& fleet) {
  return start_fleet_measurer(fleet, {{"t", small_dag()}}, target::host(), {});
}

inline std::vector<measure::Trial> trials_of(std::uint64_t first, std::uint64_t count) {
  std::vector<measure::Trial> out(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    out[i].id = first + i;
    out[i].task = "t";
  }
  return out;
}

inline std::vector<measure::Measurement> collect_all(measure::Measurer& measurer) {
  std::vector<measure::Measurement> out;
  while (measurer.pending() > 0) {
    for (measure::Measurement& m : measurer.collect(0.2)) out.push_back(std::move(m));
  }
  return out;
}

}  // namespace tessera::fleet
