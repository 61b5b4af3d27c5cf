// All logs that lie beside the repository parse, and hold what their tables say.
#include <cstdlib>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tessera/trials/record/ansor_log.h"
#include "tessera/trials/record/autotvm_log.h"
#include "tessera/trials/record/log_file.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Fields = std::vector<std::string>;
using Key = std::tuple<std::string, std::string, std::string>;  // file, task, target

struct Counts {
  std::int64_t records = 0, good = 0;
  double best = 0;

  void add(const Record& r) {
    ++records;
    if (r.outcome != "ok") return;
    ++good;
    double sum = 0;
    for (const double s : r.samples_s) sum += s;
    const double mean = sum / static_cast<double>(r.samples_s.size());
    best = best == 0 ? mean : std::min(best, mean);
  }
};

// Fields may be quoted; a quote inside is doubled.
Fields split_csv(const std::string& line) {
  Fields fields(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        fields.back() += line[++i];
      } else {
        quoted = !quoted;
      }
    } else if (line[i] == ',' && !quoted) {
      fields.emplace_back();
    } else if (line[i] != '\r') {
      fields.back() += line[i];
    }
  }
  return fields;
}

// Rows of a table with a header, each as `columns` names them.
std::vector<std::map<std::string, std::string>> read_csv(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const Fields names = split_csv(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const Fields fields = split_csv(line);
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < std::min(names.size(), fields.size()); ++i) {
      row[names[i]] = fields[i];
    }
  }
  return rows;
}

// "Total 269,316 records, 256,262 good" of a README.
Counts stated_total(const fs::path& readme) {
  std::ifstream file(readme);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  std::smatch match;
  Counts total;
  if (std::regex_search(text, match, std::regex("Total ([0-9,]+) records, ([0-9,]+) good"))) {
    const auto number = [](std::string digits) {
      std::erase(digits, ',');
      return std::stoll(digits);
    };
    total.records = number(match[1]);
    total.good = number(match[2]);
  }
  return total;
}

class SharedLogs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = TESSERA_LOGS;
    if (!fs::exists(folder_ / "tenset/tasks.csv") ||
        !fs::exists(folder_ / "tophub/workloads.csv")) {
      GTEST_SKIP() << "logs of TenSet and TopHub do not come with Tessera; there are none in "
                   << folder_;
    }
  }

  // Counts of every workload of `files` (relative to `root`).
  static std::map<Key, Counts> read_all(const fs::path& root, const std::set<std::string>& files,
                                        LogFormat format) {
    std::map<Key, Counts> found;
    for (const std::string& file : files) {
      const Result<ForeignLog> log =
          read_foreign_log((root / file).string(), [&](Record& r) -> Result<void> {
            found[{file, r.task, r.target}].add(r);
            return {};
          });
      EXPECT_TRUE(log.ok()) << log.error().message;
      EXPECT_TRUE(!log.ok() || log->format == format) << file;
    }
    return found;
  }

  // `key` gives the task of a row as records have it.
  template <class F>
  static void expect_as_in_table(const fs::path& root, const char* table, LogFormat format, F key) {
    const auto rows = read_csv(root / table);
    std::set<std::string> files;
    for (const auto& row : rows) files.insert(row.at("file"));
    const std::map<Key, Counts> found = read_all(root, files, format);
    EXPECT_EQ(found.size(), rows.size());
    Counts total;
    for (const auto& row : rows) {
      const auto it = found.find({row.at("file"), key(row), row.at("target")});
      ASSERT_NE(it, found.end()) << row.at("file") << " has no records of " << key(row);
      EXPECT_EQ(it->second.records, std::stoll(row.at("records"))) << key(row);
      EXPECT_EQ(it->second.good, std::stoll(row.at("ok_records"))) << key(row);
      if (!row.at("best_seconds").empty()) {
        const double best = std::stod(row.at("best_seconds"));
        EXPECT_NEAR(it->second.best, best, 2e-5 * best) << key(row);
      }
      total.records += it->second.records;
      total.good += it->second.good;
    }
    const Counts stated = stated_total(root / "README.md");
    EXPECT_EQ(total.records, stated.records);
    EXPECT_EQ(total.good, stated.good);
  }

  fs::path folder_;
};

TEST_F(SharedLogs, AnsorCountsAreThoseOfTheTable) {
  expect_as_in_table(folder_ / "tenset", "tasks.csv", LogFormat::kAnsor,
                     [](const auto& row) { return row.at("workload_key"); });
}

TEST_F(SharedLogs, AutotvmCountsAreThoseOfTheTable) {
  expect_as_in_table(folder_ / "tophub", "workloads.csv", LogFormat::kAutotvm, [](const auto& row) {
    return "[\"" + row.at("template") + "\"," + Json::parse(row.at("args_json")).dump() + ",{}]";
  });
}

TEST_F(SharedLogs, SamplesAreWrittenBackAsTheyWere) {
  std::vector<std::pair<fs::path, bool>> files = {{"tenset/sample-cpu.jsonl", true},
                                                  {"tenset/sample-gpu.jsonl", true}};
  for (const auto& f : fs::directory_iterator(folder_ / "tenset/tvm-ci")) {
    files.emplace_back(f.path(), true);
  }
  for (const auto& f : fs::directory_iterator(folder_ / "tophub/tophub")) {
    files.emplace_back(f.path(), false);
  }
  std::int64_t lines = 0;
  for (const auto& [file, ansor] : files) {
    const Result<void> read = visit_lines(
        (folder_ / file).string(), [&](std::string_view line, std::int64_t) -> Result<void> {
          TESSERA_TRY(const Record r, ansor ? parse_ansor_line(line) : parse_autotvm_line(line));
          TESSERA_TRY(const std::string back, ansor ? to_ansor_line(r) : to_autotvm_line(r));
          EXPECT_EQ(Json::parse(back), Json::parse(line));
          if (ansor) {
            TESSERA_TRY(const auto steps, ansor::parse_steps(r.candidate));
            EXPECT_EQ(Json::parse(ansor::to_json(steps)), Json::parse(r.candidate));
          }
          ++lines;
          return {};
        });
    ASSERT_TRUE(read.ok()) << read.error().message;
  }
  EXPECT_EQ(lines, 117 + 113 + 27 + 1831);
}

}  // namespace
}  // namespace tessera::record
