// Every schedule that the documents show, and every suite, is well-formed text.
#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/frontend/zoo/zoo.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/scheduling/schedule/step.h"
#include "tessera/support/files.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_under(const char* folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& f :
       fs::recursive_directory_iterator(fs::path(TESSERA_ROOT) / folder)) {
    if (f.path().extension() == ".txt") files.push_back(f.path());
  }
  return files;
}

bool begins(const std::string& line, const char* prefix) { return line.rfind(prefix, 0) == 0; }

TEST(ScheduleFiles, ParseAndRoundTrip) {
  const std::vector<fs::path> files = files_under("docs/reference/examples");
  ASSERT_GT(files.size(), 5u);
  for (const fs::path& file : files) {
    const std::string text = read_file(file.string()).value();
    const auto steps = schedule::schedule_from_text(text);
    ASSERT_TRUE(steps.ok()) << file << ": " << steps.error().message;
    const std::string printed = schedule::to_text(*steps);
    const auto again = schedule::schedule_from_text(printed);
    ASSERT_TRUE(again.ok()) << file << ": " << again.error().message;
    EXPECT_EQ(schedule::to_text(*again), printed) << file;
  }
}

TEST(SuiteFiles, HoldSpecsAndCoverEveryOperation) {
  std::set<std::string> seen, models;
  for (const fs::path& file : files_under("bench/suites")) {
    std::stringstream lines(read_file(file.string()).value());
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || begins(line, "#")) continue;
      if (begins(line, "zoo:")) {
        EXPECT_TRUE(zoo::canonical_spec(line).ok()) << file << ": " << line;
        models.insert(line);
        continue;
      }
      const auto spec = te::parse_op_spec(line);
      ASSERT_TRUE(spec.ok()) << file << ": " << line << ": " << spec.error().message;
      EXPECT_TRUE(te::make_dag(*spec).ok()) << file << ": " << line;
      seen.insert(spec->op);
    }
  }
  EXPECT_EQ(seen.size(), te::op_table().size());
  for (const zoo::ZooEntry& entry : zoo::zoo_table()) {
    EXPECT_EQ(models.count("zoo:" + entry.name), 1u) << entry.name;
  }
}

}  // namespace
}  // namespace tessera
