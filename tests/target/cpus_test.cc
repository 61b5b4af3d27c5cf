#include "tessera/target/cpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

namespace tessera::target {
namespace {

namespace fs = std::filesystem;

class CacheFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(::testing::TempDir()) / (std::string("tessera_caches_") + info->name());
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  void add(int index, const char* level, const char* type, const char* size, const char* sharers,
           const char* line) {
    const fs::path entry = folder_ / ("index" + std::to_string(index));
    fs::create_directories(entry);
    std::ofstream(entry / "level") << level << '\n';
    std::ofstream(entry / "type") << type << '\n';
    std::ofstream(entry / "size") << size << '\n';
    std::ofstream(entry / "shared_cpu_list") << sharers << '\n';
    std::ofstream(entry / "coherency_line_size") << line << '\n';
  }

  fs::path folder_;
};

TEST_F(CacheFolder, OrdinaryServer) {
  add(0, "1", "Data", "48K", "0,64", "64");
  add(1, "1", "Instruction", "32K", "0,64", "64");
  add(2, "2", "Unified", "2048K", "0,64", "64");
  add(3, "3", "Unified", "105M", "0-95", "64");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l1_bytes, 48 << 10);
  EXPECT_EQ(caches.l2_bytes, 2 << 20);
  EXPECT_EQ(caches.l3_bytes, 105 << 20);
  EXPECT_EQ(caches.line_bytes, 64);
}

TEST_F(CacheFolder, ClusterSharesItsSecondLevel) {
  add(0, "1", "Data", "128K", "4", "128");
  add(1, "2", "Unified", "12M", "4-7", "128");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l2_bytes, 3 << 20);
  EXPECT_EQ(caches.l3_bytes, 0);
  EXPECT_EQ(caches.line_bytes, 128);
}

TEST_F(CacheFolder, NonsenseAndAbsenceGiveZero) {
  EXPECT_EQ(read_caches((folder_ / "absent").string()).l1_bytes, 0);
  add(0, "1", "Data", "lots", "x-y", "");
  const Caches caches = read_caches(folder_.string());
  EXPECT_EQ(caches.l1_bytes, 0);
  EXPECT_EQ(caches.line_bytes, 64);
}

TEST(CpuList, Counts) {
  EXPECT_EQ(count_cpu_list("0"), 1);
  EXPECT_EQ(count_cpu_list("0-3,8,10-11"), 7);
  EXPECT_EQ(count_cpu_list(""), 0);
  EXPECT_EQ(count_cpu_list("a"), 0);
  EXPECT_EQ(count_cpu_list("3-1"), 0);
  EXPECT_EQ(count_cpu_list("1;2"), 0);
  EXPECT_EQ(count_cpu_list("0-2147483647"), 0);
}

TEST(AllowedCpus, SortedAndStable) {
  const std::vector<int>& cpus = allowed_cpus();
  ASSERT_FALSE(cpus.empty());
  EXPECT_TRUE(std::ranges::is_sorted(cpus));
  EXPECT_EQ(&cpus, &allowed_cpus());
}

TEST(HostCaches, AreFilledIn) {
  const Caches caches = host_caches(allowed_cpus().front());
  EXPECT_GT(caches.l1_bytes, 0);
  EXPECT_GT(caches.l2_bytes, 0);
  EXPECT_GT(caches.line_bytes, 0);
}

}  // namespace
}  // namespace tessera::target
