#include "tessera/learn/dataset/dataset.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dataset_case.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/learn/dataset/replace_folder.h"
#include "tessera/learn/dataset/text_column.h"
#include "tessera/support/files.h"

namespace tessera::dataset {
namespace {

namespace fs = std::filesystem;

TEST(Dataset, ReadsBackWhatWasSaved) {
  Dataset d = small_dataset(20);
  d.tasks[0].name = "na\"me\nwith\tall \xc3\xa4";
  d.machines.push_back({"llvm -keys=cpu hw=24,64,64,0,0,0,0,0", 24});
  const std::string folder = test_folder("set");
  ASSERT_TRUE(save(d, folder).ok());
  const Result<Dataset> read = load(folder);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->machines, d.machines);
  EXPECT_EQ(read->networks, d.networks);
  EXPECT_EQ(read->tasks, d.tasks);
  EXPECT_EQ(read->examples, d.examples);
  EXPECT_EQ(digest(*read), digest(d));
}

TEST(Dataset, SavesTheSameBytesAgainAndReplacesWhole) {
  const Dataset d = small_dataset(20);
  const std::string a = test_folder("a"), b = test_folder("b");
  ASSERT_TRUE(save(d, a).ok());
  ASSERT_TRUE(save(plain_dataset(3, 4), b).ok());
  ASSERT_TRUE(save(d, b).ok());  // over another dataset
  for (const auto& entry : fs::directory_iterator(a)) {
    EXPECT_EQ(read_file(entry.path().string()).value(),
              read_file((fs::path(b) / entry.path().filename()).string()).value())
        << entry.path();
  }
  for (const auto& entry : fs::directory_iterator(fs::path(a).parent_path())) {
    EXPECT_EQ(entry.path().filename().string().size(), 1u) << "left behind: " << entry.path();
  }
}

TEST(Dataset, CandidatesAreOneLine) {
  Dataset d = small_dataset(4);
  d.examples[1].candidate = "two\nlines";
  const Result<void> saved = save(d, test_folder("set"));
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, ErrorCode::kInvalidArgument);
}

TEST(Dataset, SchedulesThatAreNotThoseOfTheRecordsAreRefused) {
  const std::string folder = test_folder("set");
  ASSERT_TRUE(save(small_dataset(4), folder).ok());
  const std::string path = folder + "/schedules-000.bin.gz";
  const std::string bytes = gzip(pack_texts({"one: x.a=1\n"}).value());
  ASSERT_TRUE(write_file(path, {bytes}).ok());
  nlohmann::json manifest = nlohmann::json::parse(read_file(folder + "/dataset.json").value());
  manifest["files"][2]["bytes"] = bytes.size();
  manifest["files"][2]["crc32"] = fmt::format("{:08x}", crc32_of(bytes));
  ASSERT_TRUE(write_file(folder + "/dataset.json", {manifest.dump()}).ok());
  const Result<Dataset> read = load(folder);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_NE(read.error().message.find("1 schedules of 12 records"), std::string::npos)
      << read.error().message;
}

TEST(Dataset, WhatCannotBeReplacedStays) {
  const Dataset d = small_dataset(4);
  const std::string folder = test_folder("set");
  ASSERT_TRUE(save(d, folder).ok());
  const Result<void> replaced = replace_folder(folder + ".absent", folder);
  ASSERT_FALSE(replaced.ok());
  EXPECT_EQ(replaced.error().code, ErrorCode::kIo);
  const Result<Dataset> read = load(folder);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->examples, d.examples);
}

TEST(Dataset, AnEmptyOneIsADataset) {
  const std::string folder = test_folder("empty") + "/";
  ASSERT_TRUE(save({}, folder).ok());
  EXPECT_TRUE(load(folder)->examples.empty());
}

TEST(Dataset, WillNotReplaceAFolderOfOtherThings) {
  const std::string folder = test_folder("mine");
  fs::create_directories(folder);
  ASSERT_TRUE(write_file(folder + "/thesis.txt", {"text"}).ok());
  const Result<void> saved = save({}, folder);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(fs::exists(folder + "/thesis.txt"));
}

TEST(Dataset, DamageIsFound) {
  const std::string folder = test_folder("set");
  ASSERT_TRUE(save(small_dataset(20), folder).ok());
  const std::string path = folder + "/records-000.jsonl.gz";
  std::string bytes = read_file(path).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(write_file(path, {bytes}).ok());
  const Result<Dataset> read = load(folder);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kIo);
  EXPECT_NE(read.error().message.find("checksum"), std::string::npos) << read.error().message;
  const auto checks = verify(folder).value();
  ASSERT_EQ(checks.size(), 3u);
  EXPECT_TRUE(checks[0].problem.empty());
  EXPECT_FALSE(checks[1].problem.empty());
  EXPECT_TRUE(checks[2].problem.empty());
  fs::remove(path);
  EXPECT_EQ(load(folder).error().code, ErrorCode::kIo);
}

using Json = nlohmann::json;

// A dataset of one task and one record with its manifest changed; checksums are right.
Result<Dataset> load_forged(const std::function<void(Json&)>& change, const std::string& seconds) {
  const std::string folder = test_folder("forged");
  fs::create_directories(folder);
  Json files = Json::array();
  const auto add = [&](const std::string& name, const std::string& line) {
    const std::string bytes = gzip(line + "\n");
    EXPECT_TRUE(write_file(folder + "/" + name, {bytes}).ok());
    files.push_back({{"name", name},
                     {"bytes", bytes.size()},
                     {"crc32", fmt::format("{:08x}", crc32_of(bytes))}});
  };
  add("tasks.jsonl.gz",
      R"({"key":"k","name":"n","format":"ansor","definition":"","flops":1,"bytes":1})");
  add("records-000.jsonl.gz",
      R"({"task":0,"machine":0,"outcome":"ok","candidate":"c","seconds":)" + seconds + "}");
  Json manifest = {{"format", "tessera dataset"},
                   {"version", 1},
                   {"machines", {{{"target", "m"}, {"threads", 1}}}},
                   {"networks", {{{"name", "n"}, {"weights", {{"k", 1}}}}}},
                   {"files", files}};
  change(manifest);
  EXPECT_TRUE(write_file(folder + "/dataset.json", {manifest.dump()}).ok());
  return load(folder);
}

TEST(Dataset, ValuesOutOfRangeAreRefused) {
  const auto as_it_is = [](Json&) {};
  const Result<Dataset> good = load_forged(as_it_is, "0.5");
  ASSERT_TRUE(good.ok()) << good.error().message;
  for (const char* seconds : {"1e300", "-1", "-1e300"}) {
    EXPECT_EQ(load_forged(as_it_is, seconds).error().code, ErrorCode::kIo) << seconds;
  }
  for (const int threads : {0, -1}) {
    const auto change = [&](Json& m) { m["machines"][0]["threads"] = threads; };
    EXPECT_EQ(load_forged(change, "1").error().code, ErrorCode::kIo) << threads;
  }
  const auto weigh = [](Json& m) { m["networks"][0]["weights"]["k"] = -1; };
  EXPECT_EQ(load_forged(weigh, "1").error().code, ErrorCode::kIo);
}

// A manifest with right checksums that says nonsense.
Result<Dataset> load_forged(const std::string& line) {
  const std::string folder = test_folder("forged");
  fs::create_directories(folder);
  const std::string bytes = gzip(line + "\n");
  EXPECT_TRUE(write_file(folder + "/records-000.jsonl.gz", {bytes}).ok());
  const nlohmann::json manifest = {{"format", "tessera dataset"},
                                   {"version", 1},
                                   {"machines", {{{"target", "m"}, {"threads", 1}}}},
                                   {"networks", nlohmann::json::array()},
                                   {"files",
                                    {{{"name", "records-000.jsonl.gz"},
                                      {"bytes", bytes.size()},
                                      {"crc32", fmt::format("{:08x}", crc32_of(bytes))}}}}};
  EXPECT_TRUE(write_file(folder + "/dataset.json", {manifest.dump()}).ok());
  return load(folder);
}

TEST(Dataset, HostileFilesAreRefused) {
  for (const char* line :
       {R"({"task":0,"machine":0,"seconds":1,"outcome":"ok","candidate":"c"})",  // has no tasks
        R"({"task":-1,"machine":0,"seconds":1,"outcome":"ok","candidate":"c"})",
        R"({"task":"x","machine":0,"seconds":1,"outcome":"ok","candidate":"c"})", R"({"task":0)",
        "[]", "7"}) {
    const Result<Dataset> read = load_forged(line);
    ASSERT_FALSE(read.ok()) << line;
    EXPECT_EQ(read.error().code, ErrorCode::kIo) << line;
  }
  const std::string folder = test_folder("newer");
  fs::create_directories(folder);
  ASSERT_TRUE(write_file(folder + "/dataset.json",
                         {R"({"format":"tessera dataset","version":99,"files":[]})"})
                  .ok());
  EXPECT_EQ(load(folder).error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(load(test_folder("absent")).error().code, ErrorCode::kIo);
}

TEST(Dataset, TasksOfNetworks) {
  const Dataset d = small_dataset(4);
  EXPECT_EQ(d.tasks_of({"tiny"})->size(), 3u);
  EXPECT_EQ(d.tasks_of({"tenset5"})->size(), 2u);  // of the five it has resnet50
  EXPECT_EQ(d.tasks_of({"tiny", "resnet50"})->size(), 4u);
  const auto unknown = d.tasks_of({"vgg"});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(
      unknown.error().message,
      "no network 'vgg'; the dataset has: resnet50, tiny; name one with --holdout, or split it "
      "by-task");
  EXPECT_FALSE(plain_dataset(3, 4).tasks_of({"tenset5"}).ok());
}

TEST(Gzip, RoundTripAndBounds) {
  for (const std::string& text : {std::string(), std::string("a"), std::string(3'000'000, 'x')}) {
    const std::string packed = gzip(text);
    EXPECT_EQ(gunzip(packed, text.size() + 1).value(), text);
    EXPECT_FALSE(gunzip(packed.substr(0, packed.size() - 1), 1 << 30).ok());
  }
  EXPECT_FALSE(gunzip(gzip(std::string(3'000'000, 'x')), 1000).ok());
  EXPECT_FALSE(gunzip("", 1000).ok());
}

}  // namespace
}  // namespace tessera::dataset
