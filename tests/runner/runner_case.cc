#include "tests/runner/runner_case.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tessera/trials/record/row.h"

namespace tessera::runner {

std::string fresh_folder(const std::string& name) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  const std::string folder =
      ::testing::TempDir() + "/runner_" + test->test_suite_name() + "_" + test->name() + "_" + name;
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

app::SampleOptions sample_options(const std::string& folder, const std::string& target) {
  app::SampleOptions options;
  options.scope.subjects = {{"matmul:M=32,N=48,K=32", true, {}}, {"softmax:R=16,C=64", true, {}}};
  options.scope.target = target::find_target(target).value();
  options.scope.shards = 2;
  options.per_task = 6;
  options.folder = folder;
  return options;
}

std::vector<std::string> make_bundles(const app::SampleOptions& options) {
  const auto sampled = app::sample_dataset(options, {});
  EXPECT_TRUE(sampled.ok()) << sampled.error().message;
  std::vector<std::string> paths;
  for (std::size_t shard = 0; shard < options.scope.shards; ++shard) {
    app::BuildOptions build;
    build.folder = options.folder;
    build.shard = shard;
    const auto built = app::build_dataset(build, {});
    EXPECT_TRUE(built.ok()) << built.error().message;
    paths.push_back(app::bundle_path(options.folder, shard));
  }
  return paths;
}

std::vector<measure::BundleItem> items_of(const std::string& path) {
  const auto bundle = measure::Bundle::open(path);
  EXPECT_TRUE(bundle.ok()) << bundle.error().message;
  std::vector<measure::BundleItem> out;
  for (std::size_t i = 0; bundle.ok() && i < bundle->size(); ++i) {
    out.push_back(bundle->item(i).value());
  }
  return out;
}

std::vector<record::Record> records_of(const std::string& path) {
  std::vector<record::Record> out;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto row = record::row_from_json_line(line);
    EXPECT_TRUE(row.ok()) << row.error().message;
    if (!row.ok()) continue;
    if (const auto* r = std::get_if<record::Record>(&*row)) out.push_back(*r);
  }
  return out;
}

void rewrite(const std::string& from, const std::string& to,
             const std::function<void(measure::BundleTask&)>& change_task,
             const std::function<void(measure::BundleItem&)>& change_item) {
  const auto bundle = measure::Bundle::open(from);
  ASSERT_TRUE(bundle.ok()) << bundle.error().message;
  auto writer = measure::BundleWriter::open(to, bundle->header());
  ASSERT_TRUE(writer.ok()) << writer.error().message;
  for (measure::BundleTask task : bundle->tasks()) {
    if (change_task) change_task(task);
    ASSERT_TRUE(writer->add(task).ok());
  }
  for (std::size_t i = 0; i < bundle->size(); ++i) {
    measure::BundleItem item = bundle->item(i).value();
    if (change_item) change_item(item);
    ASSERT_TRUE(writer->add(item).ok());
  }
  ASSERT_TRUE(writer->finish().ok());
}

}  // namespace tessera::runner
