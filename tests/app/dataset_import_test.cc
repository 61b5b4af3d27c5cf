#include "tessera/app/collect/dataset_import.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include "tessera/learn/dataset/gzip.h"
#include "tessera/machine/target/match.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/files.h"
#include "tessera/support/hash.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/row.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;

std::string test_file(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(::testing::TempDir()) / (std::string("import_") + test->name());
  fs::create_directories(folder);
  fs::remove_all(folder / name);
  return (folder / name).string();
}

record::Record made(const std::string& candidate, const std::string& outcome, double seconds,
                    double calibration_s) {
  record::Record r;
  r.task = "k1";
  r.target = "machine";
  r.candidate = candidate;
  r.schedule = "steps of " + candidate + "\n";
  r.outcome = outcome;
  r.seconds = seconds;
  r.calibration_s = calibration_s;
  return r;
}

void write_database(const std::string& path, const std::vector<record::Record>& records) {
  record::Database db = record::Database::open(path).value();
  ASSERT_TRUE(db.add_tasks({{"k1", "matmul", "dag matmul", 10, 20}}).ok());
  ASSERT_TRUE(db.append(records).ok());
}

struct Done : ImportResult {
  dataset::Dataset dataset;
};

// What was imported, read back.
Result<Done> import_dataset(const ImportOptions& options) {
  const std::string folder = test_file("out.ds");
  TESSERA_TRY(ImportResult result, app::import_dataset(options, folder));
  TESSERA_TRY(dataset::Dataset d, dataset::load(folder));
  EXPECT_EQ(result.examples, d.examples.size());
  EXPECT_EQ(result.header.tasks, d.tasks);
  return Done{std::move(result), std::move(d)};
}

constexpr const char* kAnsor =
    R"({"i": [["[\"mm\", 64]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], )"
    R"([[], [["SP", 2, 0, 64, [4], 1]]]], "r": [[0.5], 0, 1.5, 1620000000], "v": "v0.6"})"
    "\n"
    R"({"i": [["[\"mm\", 128]", "llvm", [2, 64, 64, 0, 0, 0, 0, 0], "", 2, []], )"
    R"([[], [["SP", 2, 0, 64, [8], 1]]]], "r": [[1e10], 4, 1.5, 1620000000], "v": "v0.6"})"
    "\n";

TEST(Import, MergesMeasurementsOfACandidate) {
  const std::string path = test_file("a.db");
  std::vector<record::Record> records = {
      made("c1", "ok", 3, 1),         made("c1", "ok", 1, 1),        made("c1", "censored", 9, 1),
      made("c2", "censored", 5, 1),   made("c3", "run_error", 0, 1), made("c1", "ok", 2, 1),
      made("c4", "worker_lost", 0, 1)};
  records.push_back(records[0]);
  records.back().task = "not in the table";
  write_database(path, records);
  ImportOptions options;
  options.files = {path};
  const Result<Done> done = import_dataset(options);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const dataset::Dataset& d = done->dataset;
  EXPECT_EQ(done->read, 8u);
  EXPECT_EQ(done->duplicates, 3u);
  EXPECT_EQ(done->dropped, 2u);
  ASSERT_EQ(d.examples.size(), 3u);
  EXPECT_EQ(d.examples[0], (dataset::Example{0, 0, "c1", 2, "ok", "steps of c1\n", false}));
  EXPECT_EQ(d.examples[1], (dataset::Example{0, 0, "c2", 5, "censored", "steps of c2\n", false}));
  EXPECT_EQ(d.examples[2], (dataset::Example{0, 0, "c3", 0, "run_error", "steps of c3\n", false}));
  ASSERT_EQ(d.tasks.size(), 1u);
  EXPECT_EQ(d.tasks[0].definition, "dag matmul");
  EXPECT_EQ(d.machines, (std::vector<dataset::MachineInfo>{{"machine", 1}}));
}

TEST(Import, RecordsWithoutStepsAreCountedAndLeftOut) {
  const std::string path = test_file("a.db");
  std::vector<record::Record> records = {made("c1", "ok", 3, 1), made("c2", "ok", 3, 1)};
  records[1].schedule.clear();
  write_database(path, records);
  ImportOptions options;
  options.files = {path};
  const Done done = import_dataset(options).value();
  EXPECT_EQ(done.without_steps, 1u);
  ASSERT_EQ(done.dataset.examples.size(), 1u);
  EXPECT_EQ(done.dataset.examples[0].candidate, "c1");
}

TEST(Import, OnlyKernelsAloneAreExamples) {
  const std::string path = test_file("a.db"), text = test_file("a.jsonl");
  std::vector<record::Record> records = {made("c1", "ok", 3, 1), made("c1", "ok", 9, 1),
                                         made("c2", "ok", 9, 1)};
  records[1].subject = record::Subject::kInPlace;
  records[2].subject = record::Subject::kModel;
  write_database(path, records);
  std::string lines = record::to_json_line(record::TaskRow{"k1", "matmul", "dag matmul", 10, 20});
  for (const record::Record& r : records) lines += "\n" + record::to_json_line(r);
  ASSERT_TRUE(write_file(text, {lines, "\n"}).ok());
  for (const std::string& file : {path, text}) {
    ImportOptions options;
    options.files = {file};
    const Result<Done> done = import_dataset(options);
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(done->read, 1u);
    ASSERT_EQ(done->dataset.examples.size(), 1u);
    EXPECT_EQ(done->dataset.examples[0].seconds, 3);
  }
}

record::Record placed(const std::string& candidate, double seconds, double default_s) {
  record::Record r = made(candidate, seconds > 0 ? "ok" : "run_error", seconds, 1);
  r.subject = record::Subject::kInPlace;
  r.default_s = default_s;
  return r;
}

TEST(Import, TimesInPlaceAreToldByTheDefaultBesideThem) {
  const std::string path = test_file("a.db");
  // The machine was half as fast beside c2; c3 has no default to be told by; of k2 others are.
  std::vector<record::Record> records = {
      placed("c1", 3, 4), placed("c2", 10, 8),    placed("c4", 4, 4),  placed("c3", 9, 0),
      placed("c5", 0, 0), made("c1", "ok", 7, 1), placed("c1", 30, 20)};
  records.back().task = "k2";
  write_database(path, records);
  record::Database db = record::Database::open(path).value();
  ASSERT_TRUE(db.add_tasks({{"k2", "matmul", "dag other", 10, 20}}).ok());
  ImportOptions options;
  options.files = {path};
  options.in_place = true;
  const Result<Done> done = import_dataset(options);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const dataset::Dataset& d = done->dataset;
  EXPECT_EQ(done->read, 6u);
  EXPECT_EQ(done->dropped, 1u);
  EXPECT_EQ(d.machines, (std::vector<dataset::MachineInfo>{{"machine subject=in_place", 1}}));
  std::map<std::string, float> seconds;
  for (const dataset::Example& e : d.examples)
    seconds[d.tasks[static_cast<std::size_t>(e.task)].key + " " + e.candidate] = e.seconds;
  EXPECT_EQ(seconds, (std::map<std::string, float>{
                         {"k1 c1", 3}, {"k1 c2", 5}, {"k1 c4", 4}, {"k1 c5", 0}, {"k2 c1", 30}}));
  options.in_place = false;
  const Done alone = import_dataset(options).value();
  ASSERT_EQ(alone.dataset.examples.size(), 1u);
  EXPECT_EQ(alone.dataset.examples[0].seconds, 7);
  EXPECT_EQ(alone.dataset.machines, (std::vector<dataset::MachineInfo>{{"machine", 1}}));
}

// The mark is none of a machine's properties.
TEST(Import, MachinesInPlaceAreReadAsMachines) {
  const std::string path = test_file("a.db");
  std::vector<record::Record> records = {placed("c1", 3, 4)};
  records[0].target = target::to_text(target::host());
  write_database(path, records);
  ImportOptions options;
  options.files = {path};
  options.in_place = true;
  const Done done = import_dataset(options).value();
  ASSERT_EQ(done.dataset.machines.size(), 1u);
  const std::string& text = done.dataset.machines[0].target;
  EXPECT_TRUE(text.ends_with(kInPlaceMark)) << text;
  const Result<target::Target> read = target::target_from_text(text);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_TRUE(target::same_group(*read, target::host()));
}

TEST(Import, TimesInPlaceAndAloneDoNotMix) {
  const std::string path = test_file("a.db"), log = test_file("log.json");
  write_database(path, {made("c1", "ok", 3, 1), placed("c1", 9, 9)});
  ASSERT_TRUE(write_file(log, {kAnsor}).ok());
  for (const bool in_place : {false, true}) {
    ImportOptions options;
    options.files = {path};
    options.in_place = in_place;
    const std::string folder = test_file("made.ds");
    ASSERT_TRUE(app::import_dataset(options, folder).ok());
    options.files = {folder};
    const Result<Done> again = import_dataset(options);
    ASSERT_TRUE(again.ok()) << again.error().message;
    ASSERT_EQ(again->dataset.machines.size(), 1u);
    EXPECT_EQ(again->dataset.machines[0].target.ends_with(kInPlaceMark), in_place);
    options.in_place = !in_place;
    const Result<Done> mixed = import_dataset(options);
    ASSERT_FALSE(mixed.ok());
    EXPECT_EQ(mixed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_NE(mixed.error().message.find("do not mix"), std::string::npos) << mixed.error().message;
  }
  ImportOptions options;
  options.files = {log};
  options.in_place = true;
  const Result<Done> foreign = import_dataset(options);
  ASSERT_FALSE(foreign.ok());
  EXPECT_NE(foreign.error().message.find("kernels alone"), std::string::npos);
}

TEST(Import, QuietTimesGoBeforeOthers) {
  const std::string path = test_file("a.db");
  std::vector<record::Record> records = {made("c1", "ok", 9, 1), made("c1", "ok", 3, 1),
                                         made("c2", "ok", 4, 1), made("c1", "ok", 8, 1)};
  records[1].quiet = true;
  write_database(path, records);
  ImportOptions options;
  options.files = {path};
  dataset::Dataset d = import_dataset(options).value().dataset;
  ASSERT_EQ(d.examples.size(), 2u);
  EXPECT_EQ(d.examples[0].seconds, 3);
  EXPECT_TRUE(d.examples[0].quiet);
  EXPECT_FALSE(d.examples[1].quiet);
  options.quiet = true;
  const Done quiet = import_dataset(options).value();
  EXPECT_EQ(quiet.loud, 3u);
  ASSERT_EQ(quiet.dataset.examples.size(), 1u);
  EXPECT_EQ(quiet.dataset.examples[0].seconds, 3);
}

TEST(Import, CorrectsDriftWithinAFile) {
  const std::string a = test_file("a.db"), b = test_file("b.db");
  // The machine ran at half its speed beside c2; the second file lives on a slower clock.
  write_database(a, {made("c1", "ok", 3, 1), made("c2", "ok", 4, 2), made("c3", "ok", 5, 1)});
  write_database(b, {made("c4", "ok", 8, 3), made("c5", "ok", 6, 0)});
  ImportOptions options;
  options.files = {a, b};
  const dataset::Dataset d = import_dataset(options).value().dataset;
  std::map<std::string, float> seconds;
  for (const dataset::Example& e : d.examples) seconds[e.candidate] = e.seconds;
  EXPECT_EQ(seconds,
            (std::map<std::string, float>{{"c1", 3}, {"c2", 2}, {"c3", 5}, {"c4", 8}, {"c5", 6}}));
}

// Every file of a dataset as it was before compression, by name.
std::map<std::string, std::string> contents(const std::string& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string bytes = tessera::read_file(entry.path().string()).value();
    if (entry.path().extension() == ".gz") bytes = dataset::gunzip(bytes, 1 << 28).value();
    // Checksums of what zlib made depend on its version.
    if (entry.path().extension() == ".json") bytes.resize(bytes.find("\"files\""));
    out[entry.path().filename().string()] = to_hex(hash_bytes(bytes));
  }
  return out;
}

// Tasks and machines in turns, some schedules several times, two files with drift.
TEST(Import, FilesAreTheSameBytesAsEver) {
  ImportOptions options;
  const char* const outcomes[] = {"ok", "ok", "censored", "run_error", "ok"};
  for (const char* name : {"a.db", "b.db"}) {
    std::vector<record::Record> records;
    for (int i = 0; i < 300; ++i) {
      records.push_back(made("c" + std::to_string(i * 7 % 110), outcomes[i % 5],
                             i % 5 == 3 ? 0 : 1e-3 * (1 + i % 13), 1 + 0.01 * (i % 3)));
      records.back().threads = 1 + i % 2;
      records.back().quiet = i % 4 == 0;
    }
    options.files.push_back(test_file(name));
    write_database(options.files.back(), records);
  }
  options.files.push_back(test_file("log.json"));
  ASSERT_TRUE(write_file(options.files.back(), {kAnsor}).ok());
  ASSERT_TRUE(import_dataset(options).ok());
  EXPECT_EQ(contents(fs::path(options.files[0]).parent_path() / "out.ds"),
            (std::map<std::string, std::string>{{"dataset.json", "941511527f3eb49c"},
                                                {"records-000.jsonl.gz", "82ea64cb5790aa92"},
                                                {"schedules-000.bin.gz", "6920370d00c12c85"},
                                                {"tasks.jsonl.gz", "ddf1fc728b6bd833"}}));
}

// A concatenation of exports has tasks behind records.
TEST(Import, TasksOfAnExportMayComeLast) {
  const std::string path = test_file("a.jsonl");
  const record::TaskRow task = {"k1", "matmul", "dag matmul", 10, 20};
  ASSERT_TRUE(write_file(path, {record::to_json_line(made("c1", "ok", 3, 1)), "\n",
                                record::to_json_line(task), "\n"})
                  .ok());
  ImportOptions options;
  options.files = {path};
  const Done done = import_dataset(options).value();
  EXPECT_EQ(done.dropped, 0u);
  ASSERT_EQ(done.dataset.examples.size(), 1u);
  EXPECT_EQ(done.dataset.examples[0].seconds, 3);
}

// Nothing is left where a file cannot be read after others were.
TEST(Import, AFailureLeavesNothingBehind) {
  const std::string good = test_file("a.db"), bad = test_file("b.jsonl");
  write_database(good, {made("c1", "ok", 3, 1)});
  ASSERT_TRUE(write_file(bad, {kAnsor, "{\"i\": 1}\n"}).ok());
  ImportOptions options;
  options.files = {good, bad};
  const Result<Done> done = import_dataset(options);
  ASSERT_FALSE(done.ok());
  EXPECT_NE(done.error().message.find("b.jsonl:3"), std::string::npos) << done.error().message;
  for (const auto& entry : fs::directory_iterator(fs::path(good).parent_path())) {
    EXPECT_EQ(entry.path().filename().string().find("out.ds"), std::string::npos) << entry;
  }
}

TEST(Import, IdleCoresMakeNoOtherMachine) {
  const std::string path = test_file("a.db");
  target::Target machine = target::find_target("neoverse-v1").value();
  std::vector<record::Record> records;
  for (const int cores : {1, 16}) {
    machine.cores = cores;
    records.push_back(made("c" + std::to_string(cores), "ok", 1, 1));
    records.back().target = target::to_text(target::code_target(machine, 1));
  }
  write_database(path, records);
  ImportOptions options;
  options.files = {path};
  const Done done = import_dataset(options).value();
  machine.cores = 1;
  EXPECT_EQ(done.dataset.machines,
            (std::vector<dataset::MachineInfo>{{target::to_text(machine), 1}}));
  EXPECT_EQ(done.dataset.examples.size(), 2u);
}

TEST(Import, LogsOfAnsorAreNetworksOfTheirFiles) {
  const std::string log = test_file("resnet_18.jsonl"), other = test_file("vgg.json");
  ASSERT_TRUE(write_file(log, {kAnsor}).ok());
  ASSERT_TRUE(write_file(other, {kAnsor}).ok());
  ImportOptions options;
  options.files = {log, other};
  const Result<Done> done = import_dataset(options);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const dataset::Dataset& d = done->dataset;
  EXPECT_EQ(done->duplicates, 2u);
  ASSERT_EQ(d.examples.size(), 2u);
  EXPECT_EQ(d.examples[0].seconds, 0.5f);
  EXPECT_EQ(d.examples[1].outcome, "run_error");
  ASSERT_EQ(d.networks.size(), 2u);
  EXPECT_EQ(d.networks[0].name, "resnet_18");
  EXPECT_EQ(d.networks[0].weights.size(), 2u);
  const std::string folder = fs::path(log).parent_path().filename().string();
  ASSERT_EQ(d.machines.size(), 1u);
  EXPECT_EQ(d.machines[0].target, "llvm folder=" + folder + " hw=2,64,64,0,0,0,0,0");
  EXPECT_EQ(d.machines[0].threads, 2);
  EXPECT_EQ(d.tasks[0].format, "ansor");
  EXPECT_EQ(d.tasks[0].name, "mm");
}

TEST(Import, ConfigsOfAutotvmAreCandidates) {
  const std::string log = test_file("dense.log");
  ASSERT_TRUE(
      write_file(log, {R"({"input": ["cuda", "dense.cuda", [["TENSOR", [1, 768], "float32"]], {}],)"
                       R"( "config": {"index": 5, "code_hash": null, "entity":)"
                       R"( [["tile_k", "sp", [-1, 8]]]}, "result": [[0.25], 0, 1.5, 1610298238.4],)"
                       R"( "version": 0.2, "tvm_version": "0.8"})"})
          .ok());
  ImportOptions options;
  options.files = {log};
  const dataset::Dataset d = import_dataset(options).value().dataset;
  ASSERT_EQ(d.examples.size(), 1u);
  EXPECT_EQ(d.examples[0].seconds, 0.25f);
  EXPECT_EQ(d.tasks[0].format, "autotvm");
  EXPECT_EQ(d.tasks[0].name, "dense.cuda");
}

TEST(Import, LogsOfTwoFoldersAreOfTwoMachines) {
  ImportOptions options;
  for (const char* name : {"v100", "k80"}) {
    const fs::path folder = fs::path(test_file(name));
    fs::create_directories(folder);
    options.files.push_back((folder / "log.json").string());
    ASSERT_TRUE(write_file(options.files.back(), {kAnsor}).ok());
  }
  const dataset::Dataset d = import_dataset(options).value().dataset;
  EXPECT_EQ(d.machines.size(), 2u);
  EXPECT_EQ(d.tasks.size(), 2u);
  EXPECT_EQ(d.examples.size(), 4u);
  EXPECT_EQ(d.networks.size(), 1u);
}

TEST(Import, NetworksCountTheirTasks) {
  std::vector<dataset::TaskInfo> tasks;
  const Result<dataset::NetworkInfo> info = network_info("zoo:mlp", loads_for({}), &tasks);
  ASSERT_TRUE(info.ok()) << info.error().message;
  EXPECT_EQ(info->name, "mlp");
  EXPECT_FALSE(info->weights.empty());
  for (const auto& [key, count] : info->weights) {
    EXPECT_EQ(key.size(), 16u);
    EXPECT_GT(count, 0);
  }
  EXPECT_FALSE(network_info("zoo:nothing_like_it", loads_for({}), &tasks).ok());
}

// A task that only another algorithm of a convolution would run must not be trained on either.
TEST(Import, NetworksKnowTheTasksOfTheirAlternatives) {
  std::vector<dataset::TaskInfo> tasks;
  const Result<dataset::NetworkInfo> info =
      network_info("zoo:squeezenet1_1@size=64", loads_for({}), &tasks);
  ASSERT_TRUE(info.ok()) << info.error().message;
  const auto unused = std::count_if(info->weights.begin(), info->weights.end(),
                                    [](const auto& task) { return task.second == 0; });
  EXPECT_GT(unused, 0);
  EXPECT_GT(static_cast<std::int64_t>(info->weights.size()), unused);
}

// What a GPU runs of a network depends on its rules and on the type that is computed in.
TEST(Import, NetworksHaveTheTasksOfTheMachinesThatRanThem) {
  const std::string h200 = target::to_text(target::find_target("h200").value());
  EXPECT_EQ(loads_for({{"a processor", 1}, {"another", 4}}).size(), 1u);
  const std::vector<CompileOptions> gpu = loads_for({{h200, 1}});
  ASSERT_EQ(gpu.size(), 2u);
  EXPECT_EQ(loads_for({{h200, 1}, {"a processor", 1}}).size(), 3u);
  std::vector<dataset::TaskInfo> tasks;
  const dataset::NetworkInfo f32 = network_info("zoo:mlp", {gpu[0]}, &tasks).value();
  const dataset::NetworkInfo f16 = network_info("zoo:mlp", {gpu[1]}, &tasks).value();
  const dataset::NetworkInfo both = network_info("zoo:mlp", gpu, &tasks).value();
  EXPECT_EQ(both.weights.size(), f32.weights.size() + f16.weights.size());
  for (const auto& [key, count] : f16.weights) EXPECT_EQ(both.weights.at(key), count);
}

TEST(Import, MachinesOfFilesAreKeptApart) {
  const std::string first = test_file("a.db"), second = test_file("b.db");
  write_database(first, {made("c1", "ok", 3, 1), made("c2", "ok", 5, 1)});
  write_database(second, {made("c1", "ok", 9, 1), made("c1", "ok", 9, 1)});
  ImportOptions options;
  options.files = {first, second};
  EXPECT_EQ(import_dataset(options)->dataset.machines.size(), 1u);
  options.apart = true;
  const Done done = import_dataset(options).value();
  const dataset::Dataset& d = done.dataset;
  EXPECT_EQ(d.machines, (std::vector<dataset::MachineInfo>{{"machine", 1}, {"machine", 1}}));
  EXPECT_EQ(done.duplicates, 1u);
  ASSERT_EQ(d.examples.size(), 3u);
  EXPECT_EQ(d.examples[1].seconds, 5);
  EXPECT_EQ(d.examples[2].seconds, 9);
  EXPECT_EQ(d.examples[2].machine, 1);
  const std::string folder = test_file("a.ds");
  ASSERT_TRUE(dataset::save(d, folder).ok());
  EXPECT_EQ(dataset::load(folder)->machines, d.machines);
}

TEST(Import, DatasetsAreMerged) {
  const std::string first = test_file("a.db"), folder = test_file("a.ds"),
                    second = test_file("b.db");
  write_database(first, {made("c1", "ok", 3, 1), made("c2", "censored", 5, 1)});
  ImportOptions options;
  options.files = {first};
  options.networks = {"zoo:mlp"};
  const dataset::Dataset before = import_dataset(options).value().dataset;
  ASSERT_TRUE(dataset::save(before, folder).ok());
  record::Record other = made("c3", "ok", 2, 1);
  other.threads = 16;
  write_database(second, {other, made("c1", "ok", 3, 1)});
  options.files = {folder, second};
  options.networks.clear();
  const Result<Done> done = import_dataset(options);
  ASSERT_TRUE(done.ok()) << done.error().message;
  const dataset::Dataset& d = done->dataset;
  EXPECT_EQ(d.networks, before.networks);
  EXPECT_EQ(d.machines, (std::vector<dataset::MachineInfo>{{"machine", 1}, {"machine", 16}}));
  ASSERT_EQ(d.examples.size(), 3u);
  EXPECT_EQ(d.examples[0], before.examples[0]);
  EXPECT_EQ(d.examples[1], before.examples[1]);
  EXPECT_EQ(d.examples[2], (dataset::Example{0, 1, "c3", 2, "ok", "steps of c3\n", false}));
  EXPECT_EQ(done->duplicates, 1u);
  options.files = {test_file("")};  // a folder without a dataset
  EXPECT_NE(import_dataset(options).error().message.find("import_DatasetsAreMerged"),
            std::string::npos);
}

TEST(Import, SaysWhichFileIsWrong) {
  ImportOptions options;
  options.files = {test_file("absent.db")};
  EXPECT_EQ(import_dataset(options).error().code, ErrorCode::kUnavailable);
  options.files = {test_file("text.txt")};
  ASSERT_TRUE(write_file(options.files[0], {"hello\n"}).ok());
  EXPECT_NE(import_dataset(options).error().message.find("text.txt"), std::string::npos);
  options.files = {test_file("empty.jsonl")};
  ASSERT_TRUE(write_file(options.files[0], {""}).ok());
  EXPECT_FALSE(import_dataset(options).ok());
}

TEST(Import, NamesFromAFile) {
  const std::string path = test_file("names.txt");
  ASSERT_TRUE(write_file(path, {"zoo:mlp\n\n# comment\n  zoo:lenet  # why\n"}).ok());
  EXPECT_EQ(read_names(path).value(), (std::vector<std::string>{"zoo:mlp", "zoo:lenet"}));
}

}  // namespace
}  // namespace tessera::app
