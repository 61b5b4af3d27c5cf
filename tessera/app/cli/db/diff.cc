// tessera db diff: two databases, task by task.
#include <cmath>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/support/json.h"
#include "tessera/trials/record/explain.h"

namespace tessera::cli {
namespace {

using record::Database;

Result<std::vector<record::TaskDifference>> differences_of(const DbArgs& args) {
  TESSERA_TRY(const Database a, Database::open_read_only(args.files.at(0)));
  TESSERA_TRY(const Database b, Database::open_read_only(args.files.at(1)));
  return record::compare(a, b, {.targets = targets_of(args)});
}

struct Comparison {
  int a = 0, b = 0, equal = 0, common = 0;
  double log_ratio = 0;
};

Comparison compare_all(const std::vector<record::TaskDifference>& list) {
  Comparison c;
  for (const record::TaskDifference& d : list) {
    if (d.a_s <= 0 || d.b_s <= 0) continue;
    ++c.common;
    c.log_ratio += std::log(d.a_s / d.b_s);
    ++(d.a_s < d.b_s ? c.a : d.b_s < d.a_s ? c.b : c.equal);
  }
  return c;
}

const char* better(const record::TaskDifference& d) {
  if (d.a_s <= 0 || d.b_s <= 0) return d.a_s > 0 ? "only A" : d.b_s > 0 ? "only B" : "-";
  return d.a_s < d.b_s ? "A" : d.b_s < d.a_s ? "B" : "=";
}

}  // namespace

int db_diff(const DbArgs& args) {
  const Result<std::vector<record::TaskDifference>> list = differences_of(args);
  if (!list) return report(list.error());
  const Comparison c = compare_all(*list);
  const double mean = c.common > 0 ? std::exp(c.log_ratio / c.common) : 0;
  if (args.json) {
    Json tasks = Json::array();
    for (const record::TaskDifference& d : *list) {
      tasks.push_back({{"task", d.task},
                       {"a_s", d.a_s > 0 ? Json(d.a_s) : Json()},
                       {"b_s", d.b_s > 0 ? Json(d.b_s) : Json()},
                       {"better", better(d)}});
    }
    print_json({{"a", args.files[0]},
                {"b", args.files[1]},
                {"tasks", tasks},
                {"geometric_mean_a_over_b", mean > 0 ? Json(mean) : Json()}});
    return kOk;
  }
  fmt::print("{:>12} {:>12} {:>8} {:>7}  {}\n", "A", "B", "A / B", "better", "task");
  for (const record::TaskDifference& d : *list) {
    const bool both = d.a_s > 0 && d.b_s > 0;
    fmt::print("{:>12} {:>12} {:>8} {:>7}  {}\n", duration_text(d.a_s), duration_text(d.b_s),
               both ? fmt::format("{:.3f}", d.a_s / d.b_s) : "-", better(d), d.task);
  }
  fmt::print("A is faster on {}, B on {} of {} common tasks", c.a, c.b, c.common);
  fmt::print("{}\n", mean > 0 ? fmt::format("; A / B is {:.3f} in the geometric mean", mean) : "");
  return kOk;
}

}  // namespace tessera::cli
