// Studies of whole networks from recorded runs and records.
#include "tessera/app/study/paper_networks.h"

#include <cmath>
#include <filesystem>
#include <functional>
#include <map>

#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tests/dataset/dataset_case.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

struct Run {
  std::string version, date, network;
  double ratio = 1;
  bool trusted = true, verified = true;
  int threads = 1;
};

void write_run(const std::string& path, const Run& r) {
  ASSERT_TRUE(
      write_file(
          path,
          {fmt::format(
              R"({{"format": 1, "machine": {{"name": "box", "description": "b"}}, "version": "{}",
                 "date": "{}T01:02:03Z", "command": "c", "results": [{{"name": "zoo:{}",
                 "device": "cpu", "dtype": "f32", "threads": {}, "batch": 1, "median_us": 10,
                 "trusted": {}, "verified": true, "peers": [{{"name": "ort", "version": "1",
                 "median_us": {}, "ratio": {}, "trusted": true, "verified": {},
                 "range_error": 0.01}}]}}]}})",
              r.version, r.date, r.network, r.threads, r.trusted, 10 * r.ratio, r.ratio,
              r.verified)})
          .ok());
}

const NetworksSpec& two_networks() {
  static const NetworksSpec spec{.networks = {"a", "b"},
                                 .columns = {{"box", "box", "cpu", 1, "ort"}}};
  return spec;
}

TEST(NetworksStudy, CountsAllRunsOfTheNewestVersion) {
  const std::string folder = dataset::test_folder("recorded_runs");
  fs::create_directories(folder);
  write_run(folder + "/1.json", {"old", "2026-11-01", "a", 9});
  write_run(folder + "/2.json", {"new", "2026-11-02", "a", 2});
  write_run(folder + "/3.json", {"new", "2026-11-03", "a", 4});
  write_run(folder + "/4.json", {"new", "2026-11-03", "a", 50, true, true, 2});  // threads
  write_run(folder + "/5.json", {"old", "2026-11-01", "b", 12, false});
  const auto result = networks_study(two_networks(), {.data = folder});
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->rows.size(), 3u);
  EXPECT_EQ(result->rows[0].values[0], std::vector<double>{3});
  EXPECT_EQ(result->rows[1].values[0], std::vector<double>{12}) << "all that there is of it";
  EXPECT_EQ(result->rows[2].name, "geometric mean");
  EXPECT_NEAR(result->rows[2].values[0][0], 6, 1e-12);
  EXPECT_EQ(result->data, "recorded 2026-11-03, 1 of 2 beside other work");
  EXPECT_TRUE(result->seeds.empty());
}

TEST(NetworksStudy, RefusesWhatWasNotTimed) {
  const std::string folder = dataset::test_folder("few_runs");
  fs::create_directories(folder);
  write_run(folder + "/a.json", {"new", "2026-11-02", "a"});
  write_run(folder + "/b.json", {"new", "2026-11-02", "b", 2, true, false});  // in fewer bits
  const auto absent = networks_study(two_networks(), {.data = folder});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(absent.error().message.find("b on box beside ort"), std::string::npos)
      << absent.error().message;
  const auto nowhere = networks_study(two_networks(), {.data = "/nowhere"});
  ASSERT_FALSE(nowhere.ok());
  EXPECT_NE(nowhere.error().message.find("--data"), std::string::npos) << nowhere.error().message;
}

// Two datasets of the same candidates: alone the first of each task is fastest, in networks the
// third of each product is, by half.
class DrawsStudy : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = dataset::test_folder("draws");
    fs::create_directories(folder_);
    write(3, "alone", [](std::size_t i) { return 1.0 + 0.1 * static_cast<double>(i); });
    write(3, "inside", [](std::size_t i) { return i == 2 ? 0.5 : 1.0; });
  }

  void write(std::size_t each, const std::string& name,
             const std::function<double(std::size_t)>& seconds) {
    dataset::Dataset data = dataset::small_dataset(8);
    std::vector<dataset::Example> kept;
    std::map<std::int32_t, std::size_t> of_task;
    for (dataset::Example& e : data.examples) {
      const std::size_t i = of_task[e.task]++;
      if (i >= each) continue;
      e.seconds = static_cast<float>(seconds(i));
      e.outcome = "ok";
      kept.push_back(e);
    }
    data.examples = std::move(kept);
    ASSERT_TRUE(dataset::save(data, folder_ + "/" + name).ok());
  }

  DrawsSpec spec_{.alone = "alone",
                  .inside = "inside",
                  .machine = "neoverse-v1",
                  .fastest = {3, 2},
                  .draws = {1, 80}};
  std::string folder_;
};

TEST_F(DrawsStudy, FindsWhatIsFasterInsideAlone) {
  const auto result = draws_study(spec_, {.data = folder_});
  ASSERT_TRUE(result.ok()) << result.error().message;
  ASSERT_EQ(result->rows.size(), 2u);
  EXPECT_EQ(result->rows[0].name, "the top 3");
  for (std::size_t seed = 0; seed < 3; ++seed) {
    EXPECT_GE(result->rows[0].values[0][seed], 1) << "the fastest of every task is not given up";
    EXPECT_NEAR(result->rows[0].values[1][seed], 2, 1e-6) << "80 draws meet all of the third";
    EXPECT_EQ(result->rows[1].values[1][seed], 1) << "which the top 2 do not contain";
  }
  EXPECT_EQ(draws_study(spec_, {.data = folder_})->rows[0].values, result->rows[0].values);
}

TEST_F(DrawsStudy, NeedsCandidatesThatWereTimedInBothWays) {
  write(1, "inside", [](std::size_t) { return 1.0; });
  const auto none = draws_study(spec_, {.data = folder_});
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.error().message.find("alone and in networks"), std::string::npos);
  EXPECT_FALSE(draws_study(spec_, {.data = "/nowhere"}).ok());
}

}  // namespace
}  // namespace tessera::app
