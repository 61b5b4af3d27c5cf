// Every schedule and suite that ships is well-formed text.
#include <filesystem>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "tessera/driver/compile/schedule_library.h"
#include "tessera/schedule/step.h"
#include "tessera/zoo/zoo.h"

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
  const std::vector<fs::path> files = files_under("bench/schedules");
  ASSERT_GT(files.size(), 60u);
  for (const fs::path& file : files) {
    const std::string text = driver::read_text_file(file.string()).value();
    const auto steps = schedule::schedule_from_text(text);
    ASSERT_TRUE(steps.ok()) << file << ": " << steps.error().message;
    ASSERT_FALSE(steps->steps.empty()) << file;
    const std::string printed = schedule::to_text(*steps);
    const auto again = schedule::schedule_from_text(printed);
    ASSERT_TRUE(again.ok()) << file << ": " << again.error().message;
    EXPECT_EQ(schedule::to_text(*again), printed) << file;
  }
}

TEST(ScheduleFiles, SayWhatTheyAreAndWhatTheyAreFor) {
  for (const fs::path& file : files_under("bench/schedules")) {
    std::stringstream lines(driver::read_text_file(file.string()).value());
    int operations = 0, comments = 0;
    for (std::string line; std::getline(lines, line);) {
      if (!begins(line, "#")) continue;
      if (!begins(line, "# op: ")) {
        ++comments;
        continue;
      }
      ++operations;
      const std::string name = line.substr(6, line.find(':', 6) - 6);
      bool known = false;
      for (const te::OpEntry& op : te::op_table()) known = known || op.name == name;
      EXPECT_TRUE(known) << file << ": no operation " << name;
    }
    EXPECT_GE(operations, 1) << file;
    EXPECT_GE(comments, 1) << file;
  }
}

TEST(SuiteFiles, HoldSpecsAndCoverEveryOperation) {
  std::set<std::string> seen, models;
  for (const fs::path& file : files_under("bench/suites")) {
    std::stringstream lines(driver::read_text_file(file.string()).value());
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
