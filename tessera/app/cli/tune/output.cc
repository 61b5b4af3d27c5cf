#include "tessera/app/cli/tune/output.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/ranges.h>

#include "tessera/app/cli/common/progress.h"
#include "tessera/search/policy.h"
#include "tessera/support/counted.h"

namespace tessera::cli {
namespace {

const char* to_text(app::TuneState state) {
  switch (state) {
    case app::TuneState::kDone:
      return "done";
    case app::TuneState::kInterrupted:
      return "interrupted";
    case app::TuneState::kNoMeasurement:
      return "no valid measurement";
    case app::TuneState::kRejected:
      return "rejected: wrong results";
  }
  return "";
}

constexpr const char* kEstimate = "~";

double ratio(double before, double after) { return after > 0 ? before / after : 0; }

std::int64_t failures_of(const app::TaskReport& task) {
  std::int64_t sum = 0;
  for (const auto& [outcome, count] : task.failures) sum += count;
  return sum;
}

// "winograd2 conv+add 1x56x56x64 over 3x3x64".
std::string full_name(const app::TaskReport& t) {
  return fmt::format("{}{}{} {}", t.algorithm, t.algorithm.empty() ? "" : " ", t.name, t.shape);
}

void print_tasks(const TuneSummary& summary) {
  fmt::print("{:<16} {:>6} {:>10} {:>10} {:>6} {:>8} {:>6} {:>6} {:>6}  {}\n", "task", "weight",
             "before", "after", "gain", "GFLOP/s", "% peak", "trials", "failed",
             "what it computes");
  bool rest = false;
  for (const app::TaskReport& t : summary.result.tasks) {
    if (!t.used && !rest) fmt::print("not used:\n");
    rest = rest || !t.used;
    const double gflops = t.after_s > 0 ? t.flops / t.after_s * 1e-9 : 0;
    const std::string share = summary.peak_gflops > 0 && gflops > 0
                                  ? fmt::format("{:.1f}", 100 * gflops / summary.peak_gflops)
                                  : "";
    const std::int64_t failed = failures_of(t);
    const char* mark = t.estimated ? kEstimate : "";
    const double gain = ratio(t.before_s, t.after_s);
    fmt::print("{:<16} {:>6} {:>10} {:>10} {:>6} {:>8.1f} {:>6} {:>6} {:>6}  {}\n", t.key, t.weight,
               time_text(t.before_s), mark + time_text(t.after_s),
               t.before_s > 0 ? fmt::format("{}{:.2f}", mark, gain) : "", gflops, share, t.trials,
               failed > 0 ? std::to_string(failed) : "", full_name(t));
  }
  if (std::any_of(summary.result.tasks.begin(), summary.result.tasks.end(),
                  [](const app::TaskReport& t) { return t.estimated; })) {
    fmt::print("{}: estimated from trials, not timed in turns with the default at the end\n",
               kEstimate);
  }
}

// Why trials failed, the most frequent reason first.
void print_reasons(const app::TuneResult& r) {
  struct Reason {
    std::int64_t count = 0;
    std::vector<std::string> tasks;
  };
  std::map<std::string, Reason> reasons;
  for (const app::TaskReport& t : r.tasks) {
    for (const auto& [text, count] : t.reasons) {
      reasons[text].count += count;
      reasons[text].tasks.push_back(t.key);
    }
  }
  if (reasons.empty()) return;
  std::vector<std::pair<std::string, Reason>> sorted(reasons.begin(), reasons.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second.count > b.second.count; });
  fmt::print("failed trials:\n");
  for (const auto& [text, reason] : sorted) {
    const bool one = reason.tasks.size() == 1;
    fmt::print("{:>6}  {} ({})\n", reason.count, text,
               one ? "task " + reason.tasks[0] : fmt::format("{} tasks", reason.tasks.size()));
  }
}

// What was tried as a whole, and what the plan decides otherwise than the rules.
void print_graph(const app::GraphReport& g) {
  if (g.points == 0) return;
  fmt::print("{}; {} measured, {} judged, {} measured as a whole\n", counted(g.points, "decision"),
             counted(g.tasks, "kernel"), counted(g.judged, "plan"), g.measured);
  for (const app::GraphReport::Plan& p : g.plans) {
    const bool proposed = search::find_policy(p.found_by).ok();
    if (proposed && !p.kept) continue;
    const std::string judged =
        p.judged_share > 0 ? fmt::format("judged {:.3f}x  ", 1 / p.judged_share) : "";
    fmt::print("  {:<22} {:>4} changes  {}measured {:.3f}x\n", p.found_by, p.changes, judged,
               1 / p.share);
  }
  for (const app::GraphReport::Change& c : g.changes) fmt::print("  {} = {}\n", c.key, c.value);
}

Json graph_json(const app::GraphReport& g) {
  auto plans = Json::array(), changes = plans;
  for (const app::GraphReport::Plan& p : g.plans) {
    plans.push_back({{"found_by", p.found_by},
                     {"changes", p.changes},
                     {"judged_gain", p.judged_share > 0 ? 1 / p.judged_share : 0},
                     {"before_us", p.before_s * 1e6},
                     {"after_us", p.after_s * 1e6},
                     {"gain", 1 / p.share},
                     {"kept", p.kept}});
  }
  for (const app::GraphReport::Change& c : g.changes) {
    changes.push_back({{"family", c.family}, {"key", c.key}, {"value", c.value}});
  }
  Json out = {{"points", g.points},     {"tasks", g.tasks}, {"judged", g.judged},
              {"measured", g.measured}, {"plans", plans},   {"changes", changes}};
  if (g.untuned_s > 0) out["untuned_us"] = g.untuned_s * 1e6;
  return out;
}

void print_times(const app::TuneResult& r) {
  const app::TuneTimes& t = r.times;
  fmt::print(
      "{:.1f} s: search {:.1f} s, waiting for trials {:.1f} s, finals {:.1f} s, whole model {:.1f} "
      "s; meanwhile workers built for {:.1f} s and ran for {:.1f} s, the model was fitted for "
      "{:.1f} s\n",
      t.total, t.search, t.waiting, t.finals, t.whole_model, t.build, t.run, t.model);
}

}  // namespace

std::string progress_text(const app::TuneProgress& p, std::size_t width) {
  using Phase = app::TuneProgress::Phase;
  std::string text =
      p.remaining_s > 0 ? clock_text(p.remaining_s) + " left" : clock_text(p.elapsed_s);
  if (p.before_s > 0 && p.after_s > 0) {
    text += fmt::format(", {} -> {} ({:.2f}x)", time_text(p.before_s), time_text(p.after_s),
                        p.before_s / p.after_s);
  }
  if (p.busy) text += " [machine busy]";
  if (p.capacity.elsewhere) {
    text += fmt::format(", {}, {} queued, {:.1f} trials/s", counted(p.capacity.machines, "agent"),
                        p.capacity.queued, p.trials_per_s);
  }
  std::string rest;
  switch (p.phase) {
    case Phase::kDefaults:
      rest = fmt::format("default schedules: {} of {} tasks", p.defaults, p.tasks);
      break;
    case Phase::kFinals:
      rest = "best side by side: " + p.task;
      break;
    case Phase::kWholeModel:
      rest = "checking and timing the whole model";
      break;
    case Phase::kSearch:
      rest = fmt::format("{}{}, {}/{} tasks, {} {}", counted(p.trials, "trial"),
                         p.failures > 0 ? fmt::format(" ({} failed)", p.failures) : "",
                         p.live_tasks, p.tasks, time_text(p.best_s), p.task);
      if (p.expected_gain > 0.001)
        rest += fmt::format(", may gain {:.1f} %", 100 * p.expected_gain);
      break;
  }
  text += "; " + rest;
  return fitted(text, width);
}

void print_summary(const TuneSummary& summary) {
  const app::TuneResult& r = summary.result;
  print_tasks(summary);
  print_reasons(r);
  if (!r.pretrained.empty()) fmt::print("trained model: {}\n", fmt::join(r.pretrained, ", "));
  fmt::print("{}", counted(r.trials, "trial"));
  if (r.earlier > 0) fmt::print(" and {} of earlier sessions", r.earlier);
  if (r.left_aside > 0) fmt::print(" ({} of them left aside)", r.left_aside);
  fmt::print("; ended by {}", r.stopped_by);
  if (r.disturbed > 0)
    fmt::print("; disturbed {}", r.disturbed == 1 ? "once" : fmt::format("{} times", r.disturbed));
  fmt::print("\n");
  print_times(r);
  print_graph(r.graph);
  const double searched_s = r.times.search + r.times.waiting;
  if (r.trials > 0 && searched_s > 0)
    fmt::print("{:.1f} trials per second\n", static_cast<double>(r.trials) / searched_s);
  const auto cold = std::count_if(r.tasks.begin(), r.tasks.end(),
                                  [](const app::TaskReport& t) { return t.cold; });
  if (cold > 0)
    fmt::print("{} of {} tasks were timed with their constants in memory\n", cold, r.tasks.size());
  for (const app::SubjectReport& s : r.subjects) {
    if (s.before_s <= 0 || s.after_s <= 0) continue;
    fmt::print("{}: {} -> {}{} ({:.2f}x){}{}\n", s.name, time_text(s.before_s),
               s.estimated ? kEstimate : "", time_text(s.after_s), ratio(s.before_s, s.after_s),
               s.trusted ? "" : " (busy)", s.now ? "" : " (of earlier records, not timed now)");
    for (const app::PeerComparison& p : summary.peers) {
      if (p.subject != s.name) continue;
      fmt::print("    beside {}: ours {}, theirs {}: {:.2f}x\n", p.peer, time_text(p.ours_s),
                 time_text(p.theirs_s), ratio(p.theirs_s, p.ours_s));
    }
  }
  if (r.busy) fmt::print("the machine was busy: other processes used the cores while trials ran\n");
  if (!summary.plan_path.empty()) fmt::print("plan: {}\n", summary.plan_path);
  if (!summary.unproved_path.empty())
    fmt::print("what was found and not proved: {}\n", summary.unproved_path);
  if (!summary.artifact_path.empty()) fmt::print("artifact: {}\n", summary.artifact_path);
  if (summary.artifact_check) fmt::print("    {}\n", to_text(*summary.artifact_check));
}

void print_progress_json(const app::TuneProgress& p) {
  constexpr const char* kPhases[] = {"defaults", "search", "finals", "whole model"};
  Json j = {{"phase", kPhases[static_cast<std::size_t>(p.phase)]},
            {"task", p.task},
            {"trials", p.trials},
            {"failures", p.failures},
            {"before_s", p.before_s},
            {"after_s", p.after_s},
            {"elapsed_s", p.elapsed_s},
            {"remaining_s", p.remaining_s}};
  if (p.capacity.elsewhere) {
    j["agents"] = p.capacity.machines;
    j["queued"] = p.capacity.queued;
    j["trials_per_s"] = p.trials_per_s;
  }
  fmt::print(stderr, "{}\n", j.dump());
  std::fflush(stderr);
}

Json to_json(const TuneSummary& summary) {
  const app::TuneResult& r = summary.result;
  Json j = {{"state", to_text(r.state)},  {"stopped_by", r.stopped_by},
            {"threads", summary.threads}, {"session", r.session},
            {"trials", r.trials},         {"earlier_trials", r.earlier},
            {"disturbed", r.disturbed},   {"busy", r.busy},
            {"plan", summary.plan_path},  {"artifact", summary.artifact_path},
            {"pretrained", r.pretrained}};
  if (const std::optional<app::ArtifactCheck>& c = summary.artifact_check; c) {
    j["artifact_check"] = {{"compared", c->not_compared.empty()},
                           {"same_bits", c->same_bits},
                           {"error_over_tolerance", c->max_error}};
  }
  if (!summary.unproved_path.empty()) j["unproved_plan"] = summary.unproved_path;
  if (r.subjects.size() == 1) {
    j["before_us"] = r.subjects[0].before_s * 1e6;
    j["after_us"] = r.subjects[0].after_s * 1e6;
  }
  if (r.graph.points > 0) j["graph"] = graph_json(r.graph);
  j["sum_default_us"] = r.sum_default_s * 1e6;
  j["sum_best_us"] = r.sum_best_s * 1e6;
  j["sum_session_us"] = r.sum_session_s * 1e6;
  j["subjects"] = Json::array();
  for (const app::SubjectReport& s : r.subjects) {
    Json one = {{"name", s.name},
                {"before_us", s.before_s * 1e6},
                {"after_us", s.after_s * 1e6},
                {"gain", ratio(s.before_s, s.after_s)},
                {"max_error", s.max_error},
                {"untuned_checked", s.untuned_checked},
                {"timed_now", s.now},
                {"estimated", s.estimated},
                {"trusted", s.trusted},
                {"checked", s.checked}};
    for (const app::PeerComparison& p : summary.peers) {
      if (p.subject != s.name) continue;
      one["peers"].push_back({{"name", p.peer},
                              {"ours_us", p.ours_s * 1e6},
                              {"theirs_us", p.theirs_s * 1e6},
                              {"ratio", ratio(p.theirs_s, p.ours_s)}});
    }
    j["subjects"].push_back(std::move(one));
  }
  j["tasks"] = Json::array();
  for (const app::TaskReport& t : r.tasks) {
    j["tasks"].push_back({{"key", t.key},
                          {"name", t.name},
                          {"shape", t.shape},
                          {"algorithm", t.algorithm},
                          {"weight", t.weight},
                          {"used", t.used},
                          {"before_us", t.before_s * 1e6},
                          {"after_us", t.after_s * 1e6},
                          {"best_us", t.best_s * 1e6},
                          {"session_best_us", t.session_best_s * 1e6},
                          {"gflops", t.after_s > 0 ? t.flops / t.after_s * 1e-9 : 0},
                          {"trials", t.trials},
                          {"cold_caches", t.cold},
                          {"reached", t.reached},
                          {"timed_now", t.now},
                          {"estimated", t.estimated},
                          {"earlier_trials", t.earlier},
                          {"failures", t.failures},
                          {"reasons", t.reasons},
                          {"candidate", t.candidate}});
  }
  const app::TuneTimes& t = r.times;
  j["times_s"] = {{"total", t.total},   {"build", t.build},
                  {"run", t.run},       {"model", t.model},
                  {"search", t.search}, {"waiting", t.waiting},
                  {"finals", t.finals}, {"whole_model", t.whole_model}};
  return j;
}

}  // namespace tessera::cli
