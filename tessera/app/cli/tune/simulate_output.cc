#include "tessera/app/cli/tune/simulate_output.h"

#include <algorithm>
#include <cmath>

#include "tessera/app/cli/common/progress.h"
#include "tessera/app/plot/chart.h"

namespace tessera::cli {
namespace {

// 8, 16, 32, ... and the last.
std::vector<std::int64_t> columns(std::int64_t trials) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 8; n < trials; n *= 2) out.push_back(n);
  out.push_back(trials);
  return out;
}

}  // namespace

void print_simulation(const app::Simulation& s, std::int64_t trials) {
  fmt::print("{:<16} {:>10} {:>10}  {}\n", "task", "candidates", "best", "operators");
  for (const auto& t : s.tasks) {
    fmt::print("{:<16} {:>10} {:>10}  {}\n", t.key, t.candidates, time_text(t.best_s), t.name);
  }
  fmt::print("\nbest recorded / best found, geometric mean over tasks and seeds\n{:<26}",
             "policy \\ trials");
  for (const std::int64_t n : columns(trials)) fmt::print(" {:>7}", n);
  fmt::print(" {:>9}\n", "to 0.95");
  for (const std::string& policy : s.policies) {
    fmt::print("{:<26}", policy);
    for (const std::int64_t n : columns(trials)) fmt::print(" {:>7.3f}", s.score(policy, n));
    const std::int64_t reached = s.trials_to(policy, 0.95);
    fmt::print(" {:>9}\n", reached > 0 ? std::to_string(reached) : "never");
  }
}

Json to_json(const app::Simulation& s) {
  Json j;
  for (const auto& t : s.tasks) {
    j["tasks"].push_back({{"key", t.key},
                          {"name", t.name},
                          {"candidates", t.candidates},
                          {"best_us", t.best_s * 1e6}});
  }
  for (const std::string& policy : s.policies) {
    j["policies"].push_back({{"name", policy},
                             {"trials_to_0.95", s.trials_to(policy, 0.95)},
                             {"trials_to_0.99", s.trials_to(policy, 0.99)}});
  }
  for (const app::Curve& c : s.curves) {
    std::vector<double> us;
    for (const double best : c.best_s) us.push_back(best * 1e6);
    j["curves"].push_back(
        {{"task", c.task}, {"policy", c.policy}, {"seed", c.seed}, {"best_us", us}});
  }
  return j;
}

std::string plot_svg(const app::Simulation& s, std::int64_t trials) {
  double least = 0.9;
  for (const std::string& policy : s.policies) least = std::min(least, s.score(policy, 4));
  plot::LineChart chart{.title = "Best recorded time divided by the best found, over trials",
                        .x = {.label = "trials per task", .logarithmic = true, .low = 1},
                        .y = {.label = "best recorded / best found",
                              .low = std::max(0.0, std::floor(10 * least) / 10),
                              .high = 1},
                        .width = 720,
                        .height = 420};
  chart.x.high = static_cast<double>(trials);
  for (const std::string& policy : s.policies) {
    plot::Series series{.name = policy};
    const auto add = [&](std::int64_t n) {
      series.points.push_back({static_cast<double>(n), s.score(policy, n)});
    };
    for (std::int64_t n = 1; n < trials; n += std::max<std::int64_t>(1, n / 16)) add(n);
    add(trials);
    chart.series.push_back(std::move(series));
  }
  return plot::to_svg(chart);
}

}  // namespace tessera::cli
