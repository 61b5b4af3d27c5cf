#include "tessera/learn/dataset/spill.h"

#include <filesystem>

#include <gtest/gtest.h>

#include "dataset_case.h"

namespace tessera::dataset {
namespace {

std::string entry(std::size_t group, int number) {
  return "entry " + std::to_string(number) + " of " + std::to_string(group) +
         std::string(static_cast<std::size_t>(number % 50), 'x');
}

// More than stays in memory, and groups of which nothing was written yet.
TEST(Spill, GroupsComeBackInOrder) {
  const std::string folder = test_folder("spill");
  std::filesystem::create_directories(folder);
  Spill spill = Spill::create(folder).value();
  constexpr int kEntries = 150'000;
  for (int i = 0; i < kEntries; ++i) {
    for (const std::size_t group : {std::size_t{1}, std::size_t{4}}) {
      ASSERT_TRUE(spill.add(group, entry(group, i)).ok());
    }
  }
  ASSERT_TRUE(spill.add(2, "").ok());
  EXPECT_TRUE(std::filesystem::is_empty(folder));  // its file has no name
  for (const std::size_t group : {std::size_t{1}, std::size_t{4}}) {
    int next = 0;
    ASSERT_TRUE(spill
                    .visit(group,
                           [&](std::string_view got) -> Result<void> {
                             EXPECT_EQ(got, entry(group, next++));
                             return {};
                           })
                    .ok());
    EXPECT_EQ(next, kEntries);
  }
  int empty = 0;
  const auto count = [&](std::string_view got) -> Result<void> {
    EXPECT_EQ(got, "");
    ++empty;
    return {};
  };
  ASSERT_TRUE(spill.visit(2, count).ok());
  EXPECT_EQ(empty, 1);
  ASSERT_TRUE(spill.visit(3, count).ok());   // between groups
  ASSERT_TRUE(spill.visit(99, count).ok());  // beyond them
  EXPECT_EQ(empty, 1);
}

TEST(Spill, ErrorsEndIt) {
  EXPECT_EQ(Spill::create("/proc/none").error().code, ErrorCode::kIo);
  Spill spill = Spill::create(::testing::TempDir()).value();
  ASSERT_TRUE(spill.add(0, "a").ok());
  ASSERT_TRUE(spill.add(0, "b").ok());
  int visited = 0;
  const Result<void> stopped = spill.visit(0, [&](std::string_view) -> Result<void> {
    ++visited;
    return make_error(ErrorCode::kIo, "full");
  });
  EXPECT_EQ(stopped.error().message, "full");
  EXPECT_EQ(visited, 1);
}

}  // namespace
}  // namespace tessera::dataset
