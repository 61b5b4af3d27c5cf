#include "tessera/app/report/collect.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include <fmt/format.h>

#include "tessera/app/report/layers.h"
#include "tessera/support/quantile.h"
#include "tessera/trials/measure/measurement.h"
#include "tessera/trials/record/session_summary.h"

namespace tessera::report {
namespace {

using record::Record;
using record::SessionRow;

constexpr std::size_t kCalibrationPoints = 300;

Result<std::vector<SessionRow>> choose(const record::Database& database, const std::string& path,
                                       std::int64_t wanted) {
  TESSERA_TRY(const std::vector<SessionRow> all, database.sessions());
  const SessionRow* last = nullptr;
  for (const SessionRow& s : all) {
    if (wanted > 0 ? s.id == wanted : s.records > 0) last = &s;
  }
  if (last == nullptr) {
    return wanted > 0
               ? make_error(ErrorCode::kInvalidArgument, "{}: has no session {}", path, wanted)
               : make_error(ErrorCode::kInvalidArgument, "{}: has no session with records", path);
  }
  if (last->records == 0) {
    return make_error(ErrorCode::kInvalidArgument, "{}: session {} has no records", path, wanted);
  }
  std::vector<SessionRow> out;
  for (const SessionRow& s : all) {
    const bool same =
        s.model == last->model && s.target == last->target && s.threads == last->threads;
    if (wanted > 0 ? s.id == wanted : same && s.records > 0) out.push_back(s);
  }
  return out;
}

// The word after `prefix` at the beginning of a line, up to the end of the line.
std::string line_after(const std::string& text, const std::string& prefix) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string line = text.substr(at, end - at);
    const std::size_t indent = line.find_first_not_of(' ');
    if (indent != std::string::npos && line.compare(indent, prefix.size(), prefix) == 0) {
      return line.substr(indent + prefix.size());
    }
    at = end + 1;
  }
  return "";
}

// " over 3x3x64": the longest reduction of a definition ("sum(kh in 3, kw in 3, ci in 64)").
std::string over_what(const std::string& definition) {
  static const std::regex kReduction("\\(((?:[\\w.@]+ in \\d+(?:, )?)+)\\)");
  static const std::regex kExtent(" in (\\d+)");
  std::string longest;
  double most = 1;
  for (std::sregex_iterator it(definition.begin(), definition.end(), kReduction), end; it != end;
       ++it) {
    const std::string axes = (*it)[1];
    std::string text;
    double length = 1;
    for (std::sregex_iterator axis(axes.begin(), axes.end(), kExtent); axis != end; ++axis) {
      const std::string extent = (*axis)[1];
      length *= std::stod(extent);
      if (extent != "1") text += (text.empty() ? " over " : "x") + extent;
    }
    if (length > most) longest = text;
    most = std::max(most, length);
  }
  return longest;
}

// "conv+add+max f32[1, 64, 55, 55] over 3x3x64": names alone do not tell kernels apart. Of
// definitions that cannot be read, the key does.
std::string label_of(const record::TaskRow& task, const std::string& algorithm) {
  const std::string output = line_after(task.definition, "output ");
  const std::string shape = line_after(task.definition, "stage " + output + ": ");
  return fmt::format("{}{}{} {}{}", algorithm, algorithm.empty() ? "" : " ",
                     task.name.empty() ? "task" : task.name, shape.empty() ? task.key : shape,
                     shape.empty() ? "" : over_what(task.definition));
}

std::string dtype_of(const record::TaskRow& task) {
  const std::string input = line_after(task.definition, "input ");
  const std::size_t colon = input.find(": ");
  if (colon == std::string::npos) return "";
  return input.substr(colon + 2, input.find('[') - colon - 2);
}

// Behind the key of a kernel that was timed in place.
constexpr const char* kInPlace = " in place";

std::string id_of(const Record& r) {
  return r.task + (r.subject == record::Subject::kInPlace ? kInPlace : "");
}

class Collector {
 public:
  Collector(Report* report, std::map<std::int64_t, std::string> summaries)
      : report_(*report), summaries_(std::move(summaries)) {}

  Result<void> run(const record::Database& database);

 private:
  void begin(const SessionRow& session);
  void take(const Record& r);
  void take_time(const Record& r, Kernel& kernel);
  void take_failure(const Record& r);
  void count_uses();
  void choose_winners();
  void add_totals();
  void finish_noise();

  Report& report_;
  std::map<std::int64_t, std::string> summaries_;     // texts, by session
  std::map<std::string, Kernel> kernels_;             // by id_of
  std::map<std::string, std::vector<Record>> timed_;  // likewise whole ones, with times to compare
  std::map<std::pair<std::string, std::string>, std::pair<std::int64_t, std::set<std::string>>>
      failures_;
  std::vector<double> spreads_;
  std::vector<Progress> calibration_;
  std::vector<std::pair<std::string, Progress>> improvements_;  // in order of time
  double reference_s_ = 0;                                      // of the calibration kernel
  double offset_s_ = 0, now_s_ = 0;
  std::int64_t started_ = 0;
};

void Collector::begin(const SessionRow& session) {
  offset_s_ = now_s_;
  started_ = session.started;
}

void Collector::take(const Record& r) {
  ++report_.trials;
  now_s_ = std::max(
      now_s_, offset_s_ + static_cast<double>(std::max<std::int64_t>(0, r.unix_time - started_)));
  const bool timed = r.outcome == "ok" || r.outcome == "censored";
  if (!timed) take_failure(r);
  if (r.subject == record::Subject::kModel) {
    if (timed && r.seconds > 0 && r.default_s > 0) report_.plans.push_back(r);
    return;
  }
  Kernel& kernel = kernels_[id_of(r)];
  kernel.task.key = r.task;
  kernel.in_place = r.subject == record::Subject::kInPlace;
  ++kernel.trials;
  if (!timed) return;
  ++kernel.timed;
  take_time(r, kernel);
}

void Collector::take_time(const Record& r, Kernel& kernel) {
  ++report_.noise.timed;
  if (r.quiet) ++report_.noise.quiet;
  if (r.samples_s.size() >= 4 && r.seconds > 0) {
    spreads_.push_back((quantile(r.samples_s, 0.75) - quantile(r.samples_s, 0.25)) / r.seconds);
  }
  if (r.calibration_s > 0) {
    if (reference_s_ <= 0) reference_s_ = r.calibration_s;
    calibration_.push_back({report_.trials, now_s_, r.calibration_s});
  }
  if (r.outcome != "ok" || r.seconds <= 0) return;
  Record known = r;
  known.seconds = measure::without_drift(r.seconds, r.calibration_s, reference_s_);
  // Foreign logs name no default: the first stands for it.
  const std::string id = id_of(r);
  if (r.policy == "default" || timed_[id].empty()) kernel.before = known;
  std::vector<Progress>& progress = report_.by_kernel[id];
  if (progress.empty() || known.seconds < progress.back().seconds) {
    progress.push_back({report_.trials, now_s_, known.seconds});
    improvements_.emplace_back(id, progress.back());
  }
  timed_[id].push_back(std::move(known));
}

void Collector::take_failure(const Record& r) {
  auto& [count, tasks] = failures_[{r.outcome, r.reason}];
  ++count;
  tasks.insert(r.task);
}

// What the summary says of each kernel; without one, each counts once.
void Collector::count_uses() {
  for (const SessionRow& s : report_.sessions) {
    const auto it = summaries_.find(s.id);
    if (it == summaries_.end()) continue;
    Result<Summary> summary = summary_from_json(it->second);
    if (!summary) continue;  // of a newer program, perhaps: the records are still worth a page
    report_.summary = std::move(summary).value();
    report_.has_summary = true;
  }
  // Where a kernel was timed alone and in place, the former counts.
  const auto counts = [&](const std::string& key) {
    const std::string there = key + kInPlace;
    return kernels_.contains(key) || !kernels_.contains(there) ? key : there;
  };
  for (const KernelUse& use : report_.summary.kernels) {
    Kernel& kernel = kernels_[counts(use.key)];
    kernel.use = use;
    kernel.task.key = use.key;
  }
  for (auto& [id, kernel] : kernels_) {
    kernel.id = id;
    kernel.use.key = kernel.task.key;
    if (!report_.has_summary && counts(kernel.task.key) == id)
      kernel.use.uses_before = kernel.use.uses_after = 1;
  }
}

// The fastest record of the candidate that won; of all where none is known to have.
void Collector::choose_winners() {
  for (auto& [key, kernel] : kernels_) {
    KernelUse& use = kernel.use;
    const bool kept_default = report_.has_summary && use.candidate.empty();
    for (const Record& r : timed_[key]) {
      if (!use.candidate.empty() && r.candidate != use.candidate) continue;
      if (!kernel.after || r.seconds < kernel.after->seconds) kernel.after = r;
    }
    if (kept_default) kernel.after = kernel.before;
    if (use.before_s <= 0 && kernel.before) use.before_s = kernel.before->seconds;
    if (use.after_s <= 0 && kernel.after) use.after_s = kernel.after->seconds;
  }
}

// The sum has a value once every kernel that was tried here has one. The others count as they
// ended.
void Collector::add_totals() {
  std::map<std::string, double> best;
  std::set<std::string> missing;
  for (const auto& [key, kernel] : kernels_) {
    if (kernel.use.uses_after <= 0) continue;
    if (timed_[key].empty()) {
      best[key] = kernel.total_after_s();
    } else {
      missing.insert(key);
    }
  }
  if (missing.empty()) return;
  for (const auto& [key, progress] : improvements_) {
    const double uses = kernels_[key].use.uses_after;
    if (uses <= 0) continue;
    best[key] = uses * progress.seconds;
    missing.erase(key);
    if (!missing.empty()) continue;
    double sum = 0;
    for (const auto& [of, seconds] : best) sum += seconds;
    report_.total.push_back({progress.trial, progress.time_s, sum});
  }
  if (!report_.total.empty()) {
    report_.total.push_back({report_.trials, now_s_, report_.total.back().seconds});
  }
}

void Collector::finish_noise() {
  report_.noise.spread = quantile(spreads_, 0.5);
  report_.noise.wide_spread = quantile(spreads_, 0.9);
  const std::size_t every = calibration_.size() / kCalibrationPoints + 1;
  for (std::size_t i = 0; i < calibration_.size(); i += every) {
    report_.noise.calibration.push_back(calibration_[i]);
  }
}

Result<void> Collector::run(const record::Database& database) {
  for (const SessionRow& session : report_.sessions) {
    begin(session);
    TESSERA_DO(database.visit({.session = session.id, .subject = {}}, [&](const Record& r) {
      take(r);
      return true;
    }));
  }
  count_uses();
  choose_winners();
  TESSERA_TRY(const std::vector<record::TaskRow> tasks, database.tasks());
  for (const record::TaskRow& task : tasks) {
    for (const char* where : {"", kInPlace}) {
      const auto it = kernels_.find(task.key + where);
      if (it != kernels_.end()) it->second.task = task;
    }
  }
  add_totals();
  finish_noise();
  std::stable_sort(report_.plans.begin(), report_.plans.end(),
                   [](const Record& a, const Record& b) {
                     return a.seconds / a.default_s < b.seconds / b.default_s;
                   });
  for (auto& [id, kernel] : kernels_) {
    const std::string place = kernel.in_place ? " (in place)" : "";
    kernel.what = label_of(kernel.task, kernel.use.algorithm) + place;
    const std::string layers = layers_text(kernel.use.layers);
    kernel.label = layers.empty() ? kernel.what : layers + place;
    kernel.dtype = dtype_of(kernel.task);
    report_.kernels.push_back(std::move(kernel));
  }
  std::stable_sort(report_.kernels.begin(), report_.kernels.end(),
                   [](const Kernel& a, const Kernel& b) {
                     return std::max(a.total_before_s(), a.total_after_s()) >
                            std::max(b.total_before_s(), b.total_after_s());
                   });
  for (const auto& [what, seen] : failures_) {
    report_.failures.push_back({what.first, what.second, seen.first, seen.second.size()});
  }
  std::stable_sort(report_.failures.begin(), report_.failures.end(),
                   [](const Failure& a, const Failure& b) { return a.count > b.count; });
  return {};
}

}  // namespace

double Report::before_s() const {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.total_before_s();
  return sum;
}

double Report::after_s() const {
  double sum = 0;
  for (const Kernel& k : kernels) sum += k.total_after_s();
  return sum;
}

Result<Report> collect(const record::Database& database, const std::string& path,
                       std::int64_t session) {
  Report report{.database = path};
  TESSERA_TRY(report.sessions, choose(database, path, session));
  TESSERA_TRY(auto summaries, record::session_summaries(path));
  TESSERA_DO(Collector(&report, std::move(summaries)).run(database));
  return report;
}

}  // namespace tessera::report
