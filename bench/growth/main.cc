// The growth benchmark: processor seconds and memory of commands against the size of their work.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <set>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bench/growth/measure.h"
#include "bench/growth/models.h"
#include "tessera/support/file_writer.h"
#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"
#include "tessera/trials/record/row.h"

namespace tessera::growth {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using Words = std::vector<std::string>;

// Below these a command is its start, and says nothing of growth.
constexpr double kFloorSeconds = 0.05, kFloorMb = 30;

struct Options {
  std::string program = "tessera", json;
  bool quick = false;
  double limit_s = 120;
  double most = std::numeric_limits<double>::infinity();  // exponent; rows must then be whole, too
  std::vector<std::string> rows;
};

struct Step {
  std::string name;
  // Arguments of tessera; `folder` is that of the row and the size, where earlier steps left files.
  std::function<Words(const std::string& folder)> words;
  std::vector<int> accepted = {0};
};

struct Row {
  std::string name, unit;
  std::vector<int> sizes, quick;
  std::function<Result<void>(const std::string& folder, int n)> prepare;
  std::vector<Step> steps;
};

Result<void> write_model(const std::string& row, const std::string& folder, int n) {
  return onnx::save_model(make_model(row, n), folder + "/model.onnx");
}

Step model_step(const std::string& name, const Words& more = {}) {
  return {name, [=](const std::string& folder) {
            Words words = {name, folder + "/model.onnx"};
            words.insert(words.end(), more.begin(), more.end());
            return words;
          }};
}

Step compile_step() {
  return {"compile", [](const std::string& folder) {
            return Words{"compile", folder + "/model.onnx", "-o", folder + "/artifact"};
          }};
}

Row model_row(const std::string& name, const std::string& unit, std::vector<int> sizes,
              std::vector<int> quick, std::vector<Step> steps) {
  return {name,
          unit,
          std::move(sizes),
          std::move(quick),
          [name](const std::string& folder, int n) { return write_model(name, folder, n); },
          std::move(steps)};
}

// Records of Ansor's format: ten tasks in turns, all schedules different.
Result<void> write_log(const std::string& folder, int n) {
  TESSERA_TRY(FileWriter file, FileWriter::create(folder + "/log.json"));
  for (int i = 0; i < n; ++i) {
    TESSERA_DO(file.write(fmt::format(
        R"({{"i": [["[\"mm\", {}]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], [[], )"
        R"([["SP", 2, 0, 64, [{}, {}], 1], ["RE", 2, [0, 4, 1, 5, 2]], ["AN", 2, 3, 2]]]], )"
        R"("r": [[{}], 0, 1.5, 1620000000], "v": "v0.6"}})"
        "\n",
        i % 10, i / 10 + 1, i % 7 + 1, 1e-3 * (i % 97 + 1))));
  }
  return file.finish();
}

constexpr const char* kTunedOp = "matmul:M=256,N=256,K=256";

// A database with n candidates of one task of this machine, with invented times.
Result<void> write_database(const Options& o, const std::string& folder, int n) {
  const std::string sample = folder + "/sample";
  const auto run = [&](Words words) -> Result<void> {
    words.insert(words.begin(), o.program);
    TESSERA_TRY(const Cost cost, run_command(words, 10 * o.limit_s, {0}));
    (void)cost;
    return {};
  };
  TESSERA_DO(run({"dataset", "sample", "--op", kTunedOp, "--threads", "1", "--per-task",
                  std::to_string(n), "-o", sample}));
  TESSERA_TRY(const std::string manifest, read_file(sample + "/manifest.json"));
  const Json about = Json::parse(manifest);
  TESSERA_TRY(FileWriter file, FileWriter::create(folder + "/records.jsonl"));
  for (const Json& t : about.at("tasks")) {
    const record::TaskRow task = {t.at("key"), t.at("name"), t.at("definition"), t.at("flops"),
                                  t.at("bytes")};
    TESSERA_DO(file.write(record::to_json_line(task) + "\n"));
  }
  TESSERA_TRY(const std::string lines, read_file(sample + "/sample-0000.jsonl"));
  int number = 0;
  for (std::size_t at = 0; at < lines.size(); ++number) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const Json c = Json::parse(lines.substr(at, end - at));
    at = end + 1;
    record::Record r;
    r.task = c.at("task");
    r.target = about.at("target");
    r.candidate = c.at("candidate");
    r.schedule = c.at("schedule");
    r.outcome = "ok";
    r.seconds = 1e-3 * (1 + number % 997);
    r.samples_s = {r.seconds};
    TESSERA_DO(file.write(record::to_json_line(r) + "\n"));
  }
  TESSERA_DO(file.finish());
  return run({"db", "import", folder + "/records.jsonl", "--db", folder + "/records.db"});
}

// `limit`: so little that what is left is what happens before the first trial.
Step tune_step(const Words& what, const Words& limit, const std::string& database) {
  return {"tune",
          [=](const std::string& folder) {
            Words words = {"tune",
                           "--threads",
                           "1",
                           "--peers",
                           "none",
                           "--plan",
                           folder + "/x.plan",
                           "--db",
                           folder + "/" + database};
            words.insert(words.end(), limit.begin(), limit.end());
            for (const std::string& word : what) {
              words.push_back(word == "model" ? folder + "/model.onnx" : word);
            }
            return words;
          },
          {0, 3}};  // 3: nothing was found within the budget
}

std::vector<Row> record_rows(const Options& o) {
  const auto in = [](const char* file) {
    return [file](const std::string& folder) { return folder + file; };
  };
  const auto log = in("/log.json"), db = in("/log.db"), set = in("/set.ds");
  return {
      {"database",
       "records",
       {1000, 10'000, 100'000},
       {1000, 10'000},
       write_log,
       {{"db import",
         [=](const auto& f) {
           return Words{"db", "import", log(f), "--db", db(f)};
         }},
        {"db export",
         [=](const auto& f) {
           return Words{"db", "export", "--db", db(f), "-o", f + "/out.jsonl"};
         }}}},
      {"dataset",
       "records",
       {10'000, 100'000, 300'000},
       {3000, 30'000},
       write_log,
       {{"dataset import",
         [=](const auto& f) {
           return Words{"dataset", "import", log(f), "-o", set(f)};
         }},
        {"dataset stats",
         [=](const auto& f) {
           return Words{"dataset", "stats", set(f)};
         }},
        {"dataset split",
         [=](const auto& f) {
           return Words{"dataset", "split", set(f), "--split", "within-task"};
         }}}},
      {"tune_resume",
       "records",
       {1000, 10'000, 100'000},
       {300, 1000},
       [&o](const std::string& folder, int n) { return write_database(o, folder, n); },
       {tune_step({"--op", kTunedOp}, {"--trials", "1"}, "records.db")}},
  };
}

std::vector<Row> rows(const Options& o) {
  const Step tasks = model_step("tasks"), run = model_step("run", {"--random", "--threads", "1"}),
             info = model_step("info");
  std::vector<Row> all = {
      model_row("gpt", "layers", {4, 16, 64, 256}, {4, 16}, {tasks, run, compile_step()}),
      model_row("convolutions", "nodes", {30, 100, 300, 1000}, {4, 12},
                {tasks, run, compile_step()}),
      model_row("chain", "nodes", {100, 1000, 10'000}, {100, 1000}, {tasks, run}),
      model_row("fan_out", "nodes", {200, 2000, 20'000}, {200, 2000}, {tasks, run}),
      model_row("concat", "inputs", {100, 300, 1000, 3000, 20'000}, {100, 1000}, {tasks, run}),
      model_row("split_concat", "parts", {100, 300, 1000, 3000}, {100, 1000}, {tasks, run}),
      model_row("matmuls_concat", "products", {100, 300, 1000, 3000}, {30, 100}, {tasks, run}),
      model_row("scan", "steps", {30, 100, 300, 1000, 3000}, {30, 100}, {tasks, run}),
      model_row("weights", "MiB", {64, 128, 256, 512}, {16, 64}, {info, run, compile_step()})};
  for (Row& row : record_rows(o)) all.push_back(std::move(row));
  Row tune = model_row("tune_tasks", "convolutions", {10, 100, 1000}, {2, 6},
                       {tune_step({"model"}, {"--budget", "1s"}, "new.db")});
  tune.prepare = [](const std::string& folder, int n) {
    return write_model("convolutions", folder, n);
  };
  all.push_back(std::move(tune));
  return all;
}

struct Series {
  std::vector<double> sizes, cpu, peak, own;
  std::string problem;  // why it ended early
};

std::string exponent_text(const std::vector<double>& sizes, const std::vector<double>& costs,
                          double floor) {
  const double e = exponent(sizes, costs, floor);
  return std::isnan(e) ? "-" : fmt::format("{:.2f}", e);
}

Json number_or_null(double value) { return std::isnan(value) ? Json() : Json(value); }

void print_series(const Row& row, const Step& step, const Series& s) {
  const auto list = [](const std::vector<double>& values, const char* format) {
    std::vector<std::string> out;
    for (const double v : values) out.push_back(fmt::format(fmt::runtime(format), v));
    return fmt::format("{}", fmt::join(out, " "));
  };
  fmt::print("{:<15} {:<14} {:<28} {:<28} {:>5}  {:<24} {:>5}  {:<24} {:>5}{}\n", row.name,
             step.name, list(s.sizes, "{:.0f}"), list(s.cpu, "{:.2f}"),
             exponent_text(s.sizes, s.cpu, kFloorSeconds), list(s.peak, "{:.0f}"),
             exponent_text(s.sizes, s.peak, kFloorMb), list(s.own, "{:.0f}"),
             exponent_text(s.sizes, s.own, kFloorMb), s.problem.empty() ? "" : "  " + s.problem);
  std::fflush(stdout);
}

Json json_of(const Row& row, const Step& step, const Series& s) {
  return {{"row", row.name},
          {"unit", row.unit},
          {"command", step.name},
          {"sizes", s.sizes},
          {"cpu_s", s.cpu},
          {"cpu_exponent", number_or_null(exponent(s.sizes, s.cpu, kFloorSeconds))},
          {"peak_mb", s.peak},
          {"peak_exponent", number_or_null(exponent(s.sizes, s.peak, kFloorMb))},
          {"own_mb", s.own},
          {"own_exponent", number_or_null(exponent(s.sizes, s.own, kFloorMb))},
          {"problem", s.problem.empty() ? Json() : Json(s.problem)}};
}

// What is wrong where exponents are limited: those above, and rows that ended early.
void add_faults(const Options& o, const Row& row, const Step& step, const Series& s,
                std::vector<std::string>* out) {
  if (std::isinf(o.most)) return;
  const std::string name = row.name + " " + step.name;
  const std::vector<std::string> steep =
      steeper({{name + " CPU", exponent(s.sizes, s.cpu, kFloorSeconds)},
               {name + " peak memory", exponent(s.sizes, s.peak, kFloorMb)},
               {name + " own memory", exponent(s.sizes, s.own, kFloorMb)}},
              o.most);
  out->insert(out->end(), steep.begin(), steep.end());
  if (!s.problem.empty()) out->push_back(name + " ended at " + s.problem);
}

// All steps of one size; a step that failed once is left out of larger sizes.
Result<void> run_size(const Options& o, const Row& row, int n, std::vector<Series>* series) {
  TESSERA_TRY(const TemporaryFolder folder, TemporaryFolder::make("growth-" + row.name));
  TESSERA_DO(run_apart([&] { return row.prepare(folder.path(), n); }));
  for (std::size_t i = 0; i < row.steps.size(); ++i) {
    Series& s = (*series)[i];
    if (!s.problem.empty()) continue;
    Words words = row.steps[i].words(folder.path());
    words.insert(words.begin(), o.program);
    const Result<Cost> cost = run_command(words, o.limit_s, row.steps[i].accepted);
    if (!cost) {
      s.problem = fmt::format("{}: {}", n, cost.error().message);
      continue;
    }
    s.sizes.push_back(n);
    s.cpu.push_back(cost->cpu_s);
    s.peak.push_back(cost->peak_mb);
    s.own.push_back(cost->own_mb);
  }
  return {};
}

Result<Json> run_rows(const Options& o, std::vector<std::string>* faults) {
  Json out = Json::array();
  fmt::print("{:<15} {:<14} {:<28} {:<28} {:>5}  {:<24} {:>5}  {:<24} {:>5}\n", "row", "command",
             "sizes", "CPU s", "exp.", "peak MB", "exp.", "own MB", "exp.");
  for (const Row& row : rows(o)) {
    const bool wanted =
        o.rows.empty() || std::find(o.rows.begin(), o.rows.end(), row.name) != o.rows.end();
    if (!wanted) continue;
    std::vector<Series> series(row.steps.size());
    for (const int n : o.quick ? row.quick : row.sizes) {
      const Result<void> done = run_size(o, row, n, &series);
      if (!done) return done.error().with_context(fmt::format("{} of {}", row.name, n));
    }
    for (std::size_t i = 0; i < series.size(); ++i) {
      print_series(row, row.steps[i], series[i]);
      out.push_back(json_of(row, row.steps[i], series[i]));
      add_faults(o, row, row.steps[i], series[i], faults);
    }
  }
  return out;
}

constexpr const char* kUsage =
    "growth [--quick] [--limit SECONDS] [--most EXPONENT] [--program TESSERA] [--json FILE] "
    "[ROW...]\n"
    "Processor seconds and memory of commands against the size of their work, and the exponent e\n"
    "of cost = a * size^e, by least squares. peak: resident, mapped files included; own: "
    "anonymous\n"
    "memory. A command that takes more processor time than the limit (120 s) ends its row.\n"
    "--most: exit code 1 where an exponent is larger, or a row ended early. Rows:\n";

// 0: goes on.
int parse(int argc, char** argv, Options* o) {
  std::set<std::string> known;
  for (const Row& row : rows(*o)) known.insert(row.name);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const bool has_value = i + 1 < argc;
    if (word == "--quick") {
      o->quick = true;
    } else if (word == "--program" && has_value) {
      o->program = argv[++i];
    } else if (word == "--json" && has_value) {
      o->json = argv[++i];
    } else if (word == "--limit" && has_value) {
      o->limit_s = std::atof(argv[++i]);
    } else if (word == "--most" && has_value && std::atof(argv[i + 1]) > 0) {
      o->most = std::atof(argv[++i]);
    } else if (known.contains(word)) {
      o->rows.push_back(word);
    } else {
      fmt::print(stderr, "{}{}\n", kUsage, fmt::join(known, " "));
      return word == "-h" || word == "--help" ? 1 : 2;
    }
  }
  return 0;
}

int run(int argc, char** argv) {
  Options o;
  if (const int code = parse(argc, argv, &o); code != 0) return code == 1 ? 0 : code;
  // Every command as if it were the first.
  ::setenv("TESSERA_CACHE", "off", 1);
  std::vector<std::string> faults;
  const Result<Json> table = run_rows(o, &faults);
  if (!table) {
    fmt::print(stderr, "growth: {}\n", table.error().message);
    return 1;
  }
  for (const std::string& fault : faults)
    fmt::print(stderr, "growth: --most {}: {}\n", o.most, fault);
  const std::string text = table->dump(1) + "\n";
  if (o.json.empty()) return faults.empty() ? 0 : 1;
  const Result<void> written = write_file(o.json, {text});
  if (!written) fmt::print(stderr, "growth: {}\n", written.error().message);
  return written && faults.empty() ? 0 : 1;
}

}  // namespace
}  // namespace tessera::growth

int main(int argc, char** argv) { return tessera::growth::run(argc, argv); }
