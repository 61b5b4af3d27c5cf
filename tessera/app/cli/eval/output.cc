#include "tessera/app/cli/eval/output.h"

#include <algorithm>
#include <cmath>

#include <fmt/ranges.h>

#include "tessera/app/plot/chart.h"

namespace tessera::cli {
namespace {

using app::EvalResult;
using app::ModelEvaluation;
using dataset::Metrics;
using dataset::NetworkScore;

using Row = std::vector<std::string>;

std::vector<const ModelEvaluation*> all_models(const EvalResult& r) {
  std::vector<const ModelEvaluation*> out;
  for (const auto* models : {&r.models, &r.baselines}) {
    for (const ModelEvaluation& m : *models) out.push_back(&m);
  }
  return out;
}

double at(const std::map<int, double>& values, int k) {
  const auto it = values.find(k);
  return it == values.end() ? 0 : it->second;
}

// A baseline that no test record tells of has no numbers.
std::string number(double value, const dataset::Evaluation& of) {
  return of.average.records > 0 ? fmt::format("{:.4f}", value) : "-";
}

// Header first; the leading two columns are names.
std::vector<Row> metric_rows(const EvalResult& r) {
  std::vector<Row> rows = {{"model", "loss", "RMSE", "R2", "MAPE", "pairwise", "tau", "peak@1",
                            "top-1", "top-5", "slow@1", "slow@5"}};
  for (const ModelEvaluation* m : all_models(r)) {
    const dataset::Evaluation& e = m->evaluation;
    Row row = {m->name, m->loss};
    for (const double value : {e.average.rmse, e.average.r2, e.average.mape, e.average.pairwise,
                               e.average.kendall, at(e.average.peak, 1), e.top1, e.top5,
                               at(e.average.slowdown, 1), at(e.average.slowdown, 5)}) {
      row.push_back(number(value, e));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> reduction_rows(const EvalResult& r) {
  std::vector<Row> rows = {{"model", "loss", "pairwise", "tau", "peak@1", "top-1", "top-5"}};
  for (const ModelEvaluation* m : all_models(r)) {
    const dataset::Evaluation& e = m->by_reduction;
    Row row = {m->name, m->loss};
    for (const double value :
         {e.average.pairwise, e.average.kendall, at(e.average.peak, 1), e.top1, e.top5}) {
      row.push_back(number(value, e));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string reduction_title(const EvalResult& r) {
  return fmt::format(
      "by reduction: {} test records of {} tasks whose reduction no training task has",
      r.unseen_records, r.unseen_tasks);
}

std::vector<Row> network_rows(const EvalResult& r) {
  std::vector<Row> rows = {{"model", "loss"}};
  rows[0].insert(rows[0].end(), r.networks.begin(), r.networks.end());
  for (const ModelEvaluation* m : all_models(r)) {
    Row row = {m->name, m->loss};
    for (const std::string& name : r.networks) {
      const auto found = m->evaluation.networks.find(name);
      row.push_back(found == m->evaluation.networks.end()
                        ? "-"
                        : fmt::format("{:.3f}/{:.3f}", found->second.top1, found->second.top5));
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

// Columns as wide as their longest entry.
std::string aligned(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string out;
  for (const Row& row : rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      out += c == 0  ? fmt::format("{:<{}}", row[c], widths[c])
             : c < 2 ? fmt::format("  {:<{}}", row[c], widths[c])
                     : fmt::format("  {:>{}}", row[c], widths[c]);
    }
    out += '\n';
  }
  return out;
}

std::string markdown(const std::vector<Row>& rows) {
  std::string out;
  for (const Row& row : rows) {
    out += fmt::format("| {} |\n", fmt::join(row, " | "));
    if (&row != &rows.front()) continue;
    out += "|---|---|";
    for (std::size_t c = 2; c < row.size(); ++c) out += "---:|";
    out += '\n';
  }
  return out;
}

std::string summary(const EvalResult& r) {
  std::string out = fmt::format("{} test records of {} tasks", r.records, r.tasks);
  if (r.unreadable > 0) {
    out += fmt::format("; {} have no steps that apply and are left out", r.unreadable);
  }
  if (r.default_tasks == 0) {
    out += "; default: no task was measured with it";
  } else if (r.default_tasks < r.tasks) {
    out += fmt::format("; default: the {} tasks that were measured with it", r.default_tasks);
  }
  const auto all = all_models(r);
  std::vector<std::string> lined;
  for (const ModelEvaluation* m : all) {
    const std::string name = m->loss == "-" ? m->name : m->name + " " + m->loss;
    if (m->line && m->evaluation.average.records > 0) lined.push_back(name);
  }
  out += '\n';
  if (!lined.empty()) {
    out += fmt::format(
        "RMSE, R2 and MAPE of {} are those of a linear fit of scores to labels\n",
        lined.size() == all.size() ? "all models" : fmt::format("{}", fmt::join(lined, ", ")));
  }
  out += app::seen_in_training(r);
  return out;
}

constexpr const char* kNetworksTitle = "top-1/top-5 score by network";

Json model_json(const ModelEvaluation& m) {
  const Metrics& a = m.evaluation.average;
  Json networks = Json::object();
  for (const auto& [name, s] : m.evaluation.networks) {
    networks[name] = {{"top1", s.top1},       {"top5", s.top5},   {"pairwise", s.pairwise},
                      {"kendall", s.kendall}, {"tasks", s.tasks}, {"missing", s.missing}};
  }
  Json j = {{"name", m.name},
            {"loss", m.loss},
            {"top1", m.evaluation.top1},
            {"top5", m.evaluation.top5},
            {"pairwise", a.pairwise},
            {"kendall", a.kendall},
            {"rmse", a.rmse},
            {"r2", a.r2},
            {"mape", a.mape},
            {"line", m.line},
            {"records", a.records}};
  const auto by_depth = [&](const char* name, const std::map<int, double>& values) {
    for (const auto& [k, value] : values) j[name][std::to_string(k)] = value;
  };
  by_depth("recall", a.recall);
  by_depth("peak", a.peak);
  by_depth("slowdown", a.slowdown);
  j["networks"] = networks;
  j["by_reduction"] = {{"top1", m.by_reduction.top1},
                       {"top5", m.by_reduction.top5},
                       {"pairwise", m.by_reduction.average.pairwise},
                       {"kendall", m.by_reduction.average.kendall},
                       {"records", m.by_reduction.average.records}};
  if (!m.network.empty()) j["network"] = m.network;
  if (!m.path.empty()) j["file"] = m.path;
  if (!m.notes.empty()) j["notes"] = m.notes;
  return j;
}

}  // namespace

std::string eval_text(const EvalResult& r) {
  std::string out = app::not_covered(r) + aligned(metric_rows(r));
  if (!r.networks.empty()) {
    out += fmt::format("\n{}\n{}", kNetworksTitle, aligned(network_rows(r)));
  }
  if (r.unseen_records > 0 && r.unseen_records < r.records) {
    out += fmt::format("\n{}\n{}", reduction_title(r), aligned(reduction_rows(r)));
  }
  return out + "\n" + summary(r);
}

std::string eval_markdown(const EvalResult& r) {
  std::string out = app::not_covered(r);
  if (!out.empty()) out += "\n";
  out += markdown(metric_rows(r));
  if (!r.networks.empty()) {
    out += fmt::format("\n{}:\n\n{}", kNetworksTitle, markdown(network_rows(r)));
  }
  if (r.unseen_records > 0 && r.unseen_records < r.records) {
    out += fmt::format("\n{}:\n\n{}", reduction_title(r), markdown(reduction_rows(r)));
  }
  return out + "\n" + summary(r);
}

Json to_json(const EvalResult& r) {
  Json j = {{"models", Json::array()},
            {"baselines", Json::array()},
            {"records", r.records},
            {"tasks", r.tasks},
            {"unreadable", r.unreadable},
            {"default_tasks", r.default_tasks},
            {"unseen_reductions", {{"records", r.unseen_records}, {"tasks", r.unseen_tasks}}},
            {"coverage", Json::array()}};
  for (const dataset::NetworkCoverage& c : r.coverage) {
    j["coverage"].push_back({{"machine", c.machine},
                             {"threads", c.threads},
                             {"network", c.name},
                             {"missing", c.missing},
                             {"tasks", c.tasks},
                             {"unknown", c.unknown}});
  }
  for (const ModelEvaluation& m : r.models) j["models"].push_back(model_json(m));
  for (const ModelEvaluation& m : r.baselines) j["baselines"].push_back(model_json(m));
  return j;
}

std::string plot_svg(const EvalResult& r) {
  plot::RowChart chart{.title = "Scores of cost models, mean of the networks",
                       .x = {.label = "score, mean of the networks", .high = 1},
                       .series = {"top-1", "top-5"},
                       .digits = 3};
  double least = 0.9;
  for (const ModelEvaluation* m : all_models(r)) {
    const dataset::Evaluation& e = m->evaluation;
    if (e.average.records == 0) continue;
    least = std::min(least, e.top1);
    chart.rows.push_back(
        {.label = m->loss == "-" ? m->name : m->name + " " + m->loss, .values = {e.top1, e.top5}});
  }
  chart.x.low = std::max(0.0, std::floor(10 * least) / 10);
  return plot::to_svg(chart);
}

}  // namespace tessera::cli
