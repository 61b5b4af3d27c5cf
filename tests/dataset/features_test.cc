#include "tessera/learn/dataset/features.h"

#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dataset_case.h"
#include "tessera/learn/dataset/candidate_rows.h"
#include "tessera/learn/dataset/gzip.h"
#include "tessera/scheduling/feature/extract.h"
#include "tessera/support/files.h"
#include "tessera/support/npz.h"

namespace tessera::dataset {
namespace {

constexpr feature::Rows kKinds[] = {feature::Rows::kStatement, feature::Rows::kLoop,
                                    feature::Rows::kStep};

class Features : public ::testing::TestWithParam<feature::Rows> {};
INSTANTIATE_TEST_SUITE_P(Kinds, Features, ::testing::ValuesIn(kKinds),
                         [](const auto& p) { return feature::to_text(p.param); });

TEST_P(Features, AreThoseOfTheCandidates) {
  const Dataset d = small_dataset(30);
  const auto store = open_features(d, GetParam(), test_folder("store"), 2);
  ASSERT_TRUE(store.ok()) << store.error().message;
  const FeatureStore& s = **store;
  ASSERT_EQ(s.size(), d.examples.size());
  EXPECT_EQ(s.columns(), std::ssize(row_names(GetParam())));
  const target::Target target = target::target_from_text(d.machines[0].target).value();
  CandidateRows rows(target, 1, GetParam());
  std::map<std::int32_t, float> best;
  for (const Example& e : d.examples) {
    float& b = best.emplace(e.task, e.seconds).first->second;
    if (e.seconds > 0) b = std::min(b, e.seconds);
  }
  for (std::size_t i = 0; i < s.size(); i += 7) {
    const Example& e = d.examples[i];
    const te::Dag dag =
        te::dag_from_text(d.tasks[static_cast<std::size_t>(e.task)].definition).value();
    const space::Space space = space::make_space(dag, target).value();
    std::vector<float> want, context;
    std::vector<std::int16_t> parents;
    const auto count = rows.append(space, space.parse(e.candidate).value(), &want, &parents);
    ASSERT_TRUE(count.ok()) << count.error().message;
    rows.append_context(dag, &context);
    const FeatureView v = s[i];
    EXPECT_EQ(v.row_count, static_cast<std::int32_t>(*count));
    EXPECT_TRUE(std::ranges::equal(v.rows, want));
    EXPECT_TRUE(std::ranges::equal(v.parents, parents));
    EXPECT_TRUE(std::ranges::equal(v.context, context));
    EXPECT_EQ(v.task, e.task);
    EXPECT_EQ(v.seconds, e.seconds);
    EXPECT_FLOAT_EQ(v.label, e.seconds > 0 ? best[e.task] / e.seconds : 0.f);
  }
}

TEST_P(Features, AreReadAgainUntilSomethingChanges) {
  const std::string folder = test_folder("store");
  Dataset d = small_dataset(8);
  int made = 0;
  const auto open = [&] {
    const auto store =
        open_features(d, GetParam(), folder, 1, [&](std::size_t, std::size_t) { ++made; });
    EXPECT_TRUE(store.ok()) << store.error().message;
  };
  open();
  EXPECT_GT(made, 0);
  made = 0;
  open();
  EXPECT_EQ(made, 0);
  d.examples[1].seconds *= 2;
  open();
  EXPECT_GT(made, 0);
  made = 0;
  const std::string shard = folder + "/" + feature::to_text(GetParam()) + "-0000.npz";
  std::string bytes = read_file(shard).value();
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  ASSERT_TRUE(write_file(shard, {bytes}).ok());
  open();  // damaged: made again
  EXPECT_GT(made, 0);
}

// What ran is in the steps: a space that changed since does not matter.
TEST_P(Features, CandidatesThatNoSpaceKnowsHaveThoseOfTheirSteps) {
  Dataset d = small_dataset(8);
  const auto before = open_features(d, GetParam(), test_folder("before"), 1).value();
  for (Example& e : d.examples) e.candidate = "gone: no.such=1";
  std::size_t unreadable = 0;
  const auto after = open_features(d, GetParam(), test_folder("after"), 1, {}, &unreadable).value();
  EXPECT_EQ(unreadable, 0u);
  for (std::size_t i = 0; i < before->size(); ++i) {
    EXPECT_TRUE(std::ranges::equal((*before)[i].rows, (*after)[i].rows)) << i;
    EXPECT_EQ((*before)[i].label, (*after)[i].label) << i;
  }
}

TEST(FeatureStore, RecordsWithoutStepsAreKeptAndCounted) {
  Dataset d = small_dataset(8);
  d.examples[3].schedule.clear();
  std::size_t unreadable = 0;
  const auto store =
      open_features(d, feature::Rows::kLoop, test_folder("store"), 1, {}, &unreadable);
  ASSERT_TRUE(store.ok()) << store.error().message;
  EXPECT_EQ(unreadable, 1u);
  const FeatureView v = (**store)[3];
  EXPECT_EQ(v.row_count, 1);
  EXPECT_EQ(v.seconds, 0);
  EXPECT_EQ(v.label, 0);
  EXPECT_TRUE(std::ranges::all_of(v.rows, [](float x) { return x == 0; }));
}

// With right checksums, a parent beyond the candidate's rows.
TEST(FeatureStore, ParentsBeyondTheRowsAreNotTrusted) {
  const std::string folder = test_folder("store"), shard = folder + "/loop-0000.npz";
  const Dataset d = small_dataset(8);
  ASSERT_TRUE(open_features(d, feature::Rows::kLoop, folder, 1).ok());
  for (const std::int16_t parent : {std::int16_t{-2}, std::int16_t{1000}}) {
    NamedTensors tensors = read_npz(shard).value();
    for (NamedTensor& t : tensors) {
      if (t.name == "parents") t.tensor.as<std::int16_t>()[2] = parent;
    }
    const std::string before = read_file(shard).value();
    ASSERT_TRUE(write_npz(shard, tensors).ok());
    const std::string after = read_file(shard).value();
    ASSERT_EQ(after.size(), before.size());
    nlohmann::json manifest = nlohmann::json::parse(read_file(folder + "/loop.json").value());
    manifest["shards"][0]["crc32"] = fmt::format("{:08x}", crc32_of(after));
    ASSERT_TRUE(write_file(folder + "/loop.json", {manifest.dump()}).ok());
    int made = 0;
    const auto store = open_features(d, feature::Rows::kLoop, folder, 1,
                                     [&](std::size_t, std::size_t) { ++made; });
    ASSERT_TRUE(store.ok()) << store.error().message;
    EXPECT_GT(made, 0);
    EXPECT_TRUE(std::ranges::all_of((**store)[0].parents, [&](std::int16_t p) {
      return p >= -1 && p < (**store)[0].row_count;
    }));
  }
}

TEST(FeatureStore, SeveralShardsByManyThreadsEqualOne) {
  Dataset d = small_dataset(24);
  std::vector<Example> many;
  for (std::int32_t t = 0; t < 3; ++t) {
    for (int copy = 0; copy < 120; ++copy) {
      std::ranges::copy_if(d.examples, std::back_inserter(many),
                           [&](const Example& e) { return e.task == t; });
    }
  }
  d.examples = many;
  const auto a = open_features(d, feature::Rows::kStep, test_folder("a"), 1).value();
  const auto b = open_features(d, feature::Rows::kStep, test_folder("b"), 4).value();
  ASSERT_GT(a->size(), 8000u);
  for (std::size_t i = 0; i < a->size(); ++i) {
    ASSERT_TRUE(std::ranges::equal((*a)[i].rows, (*b)[i].rows)) << i;
    ASSERT_TRUE(std::ranges::equal((*a)[i].context, (*b)[i].context)) << i;
  }
}

TEST(FeatureStore, ThreadsOfTheCodeAreTheCores) {
  Dataset d = small_dataset(4);
  d.machines[0].threads = 3;
  const auto store = open_features(d, feature::Rows::kStatement, test_folder("store"), 1).value();
  const auto& names = row_names(feature::Rows::kStatement);
  const auto cores = static_cast<std::size_t>(std::ranges::find(names, "cores") - names.begin());
  EXPECT_EQ((*store)[0].rows[cores], 2);  // log2(3 + 1)
}

TEST(FeatureStore, ForeignTasksHaveStepsAlone) {
  Dataset d = plain_dataset(2, 3);
  for (Example& e : d.examples) e.candidate = R"([["CI",1],["CR",2]])";
  EXPECT_TRUE(open_features(d, feature::Rows::kStep, test_folder("a"), 1).ok());
  const auto loops = open_features(d, feature::Rows::kLoop, test_folder("b"), 1);
  ASSERT_FALSE(loops.ok());
  EXPECT_EQ(loops.error().code, ErrorCode::kUnsupported);
}

TEST(FeatureStore, AnEmptyDataset) {
  EXPECT_EQ(open_features({}, feature::Rows::kStatement, test_folder("store"), 2).value()->size(),
            0u);
}

}  // namespace
}  // namespace tessera::dataset
