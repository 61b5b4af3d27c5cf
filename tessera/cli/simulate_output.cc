#include "tessera/cli/simulate_output.h"

#include <algorithm>
#include <cmath>

#include "tessera/cli/progress.h"

namespace tessera::cli {
namespace {

// 8, 16, 32, ... and the last.
std::vector<std::int64_t> columns(std::int64_t trials) {
  std::vector<std::int64_t> out;
  for (std::int64_t n = 8; n < trials; n *= 2) out.push_back(n);
  out.push_back(trials);
  return out;
}

constexpr const char* kColours[] = {"#0b6e99", "#c0392b", "#2e7d32", "#8e44ad",
                                    "#d68910", "#34495e", "#16a085", "#7f8c8d"};

// A plane with trials (doubling) to the right and score upwards.
struct Plot {
  double width = 640, height = 360, left = 56, right = 170, top = 20, bottom = 44;
  double low = 0;  // score at the bottom
  std::int64_t trials = 1;

  double x(double n) const {
    const double span =
        std::max(1e-9, std::log2(static_cast<double>(std::max<std::int64_t>(2, trials))));
    return left + (width - left - right) * std::log2(std::max(1.0, n)) / span;
  }
  double y(double score) const {
    const double share = (std::clamp(score, low, 1.0) - low) / (1 - low);
    return height - bottom - (height - top - bottom) * share;
  }
};

std::string axes(const Plot& p) {
  std::string out;
  for (std::int64_t n = 1; n <= p.trials; n *= 4) {
    const double x = p.x(static_cast<double>(n));
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{0:.1f}\" y2=\"{2:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{0:.1f}\" y=\"{3:.1f}\" text-anchor=\"middle\">{4}</text>\n",
        x, p.y(p.low), p.y(1), p.height - p.bottom + 16, n);
  }
  for (int i = 0; i <= 4; ++i) {
    const double score = p.low + (1 - p.low) * i / 4;
    out += fmt::format(
        "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{:.2f}</text>\n",
        p.left, p.y(score), p.width - p.right, p.y(score), p.left - 6, p.y(score) + 4, score);
  }
  out += fmt::format(
      "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">trials a task</text>\n"
      "<text transform=\"rotate(-90)\" x=\"{:.1f}\" y=\"14\" text-anchor=\"middle\">best "
      "recorded / best found</text>\n",
      (p.left + p.width - p.right) / 2, p.height - 8, -(p.top + p.height - p.bottom) / 2);
  return out;
}

}  // namespace

void print_simulation(const driver::Simulation& s, std::int64_t trials) {
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

nlohmann::ordered_json to_json(const driver::Simulation& s) {
  nlohmann::ordered_json j;
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
  for (const driver::Curve& c : s.curves) {
    std::vector<double> us;
    for (const double best : c.best_s) us.push_back(best * 1e6);
    j["curves"].push_back(
        {{"task", c.task}, {"policy", c.policy}, {"seed", c.seed}, {"best_us", us}});
  }
  return j;
}

std::string plot_svg(const driver::Simulation& s, std::int64_t trials) {
  Plot p;
  p.trials = trials;
  double least = 1;
  for (const std::string& policy : s.policies) least = std::min(least, s.score(policy, 4));
  p.low = std::floor(10 * std::min(least, 0.9)) / 10;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" width=\"{0}\" "
      "height=\"{1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
      "<rect width=\"{0}\" height=\"{1}\" fill=\"white\"/>\n",
      p.width, p.height);
  out += axes(p);
  for (std::size_t i = 0; i < s.policies.size(); ++i) {
    const char* colour = kColours[i % std::size(kColours)];
    out +=
        fmt::format("<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"2\" points=\"", colour);
    for (std::int64_t n = 1; n <= trials; n += std::max<std::int64_t>(1, n / 16)) {
      out += fmt::format("{:.1f},{:.1f} ", p.x(static_cast<double>(n)),
                         p.y(s.score(s.policies[i], n)));
    }
    out += "\"/>\n";
    const double y = p.top + 14 + 18 * static_cast<double>(i);
    out += fmt::format(
        "<line x1=\"{0:.1f}\" y1=\"{1:.1f}\" x2=\"{2:.1f}\" y2=\"{1:.1f}\" stroke=\"{3}\" "
        "stroke-width=\"2\"/><text x=\"{4:.1f}\" y=\"{5:.1f}\">{6}</text>\n",
        p.width - p.right + 10, y, p.width - p.right + 30, colour, p.width - p.right + 36, y + 4,
        s.policies[i]);
  }
  return out + "</svg>\n";
}

}  // namespace tessera::cli
