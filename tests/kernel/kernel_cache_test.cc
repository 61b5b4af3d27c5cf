#include "tessera/backend/kernel/kernel_cache.h"

#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <unistd.h>

#include "tessera/backend/kernel/compile_op.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/cpu_device.h"
#include "tests/testing/testing.h"

namespace tessera::kernel {
namespace {

namespace fs = std::filesystem;

class KernelCacheTest : public ::testing::Test {
 protected:
  KernelCacheTest()
      : folder_(fs::temp_directory_path() / fmt::format("tessera-kernels-{}", getpid())) {
    fs::remove_all(folder_);
  }
  ~KernelCacheTest() override { fs::remove_all(folder_); }

  std::shared_ptr<const KernelCache> cache() const {
    return std::make_shared<const KernelCache>(DiskCache(folder_.string(), 1 << 24));
  }

  fs::path folder_;
};

const te::Dag& dense() {
  static const te::Dag dag = te::make_dag(te::parse_op_spec("dense:M=5,N=24,K=16").value()).value();
  return dag;
}

// The weights are packed by twelve rows: the entry must say so.
std::string packed_schedule() {
  const std::string weights = dense().inputs[1].buffer->name;
  return "layout " + weights + " d0/12 d1 d0%12\n";
}

HostTensor compute(const CompiledOp& op) {
  runtime::ThreadPool pool({.threads = 1});
  runtime::CpuDevice device(pool);
  OpRunner runner(op, device);
  Rng rng(3);
  for (std::size_t i = 0; i < op.dag.inputs.size(); ++i) {
    const ir::Buffer& b = op.dag.inputs[i].buffer;
    EXPECT_TRUE(runner.set_input(i, random_tensor(b->dtype, b->shape, rng)).ok());
  }
  EXPECT_TRUE(runner.run().ok());
  return runner.output(0).value();
}

TEST_F(KernelCacheTest, GivesBackProgramsOfGpus) {
  const target::Target h200 = target::find_target("h200").value();
  runtime::Binary ptx;
  ptx.kind = runtime::BinaryKind::kPtx;
  ptx.bytes = {'p', 't', 'x'};
  ptx.launches = {{"first", {7, 1, 1}, {32, 4, 1}, 0, {0, 2}},
                  {"second", {1, 2, 3}, {64, 1, 1}, 65536, {2, 1}, true}};
  ptx.temporaries = {4096};
  ptx.parameters = 2;
  const std::string key = KernelCache::key(h200, {}, "dag", "steps");
  ASSERT_NE(key, "");
  cache()->store(key, {ptx, {{}, schedule::layout_from_text("d1 d0").value()}, 7});
  const auto found = cache()->find(key, h200);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->digest, 7u);
  EXPECT_EQ(found->binary.kind, ptx.kind);
  EXPECT_EQ(found->binary.target.name, "h200");
  EXPECT_EQ(found->binary.bytes, ptx.bytes);
  EXPECT_EQ(found->binary.temporaries, ptx.temporaries);
  EXPECT_EQ(found->binary.parameters, 2);
  EXPECT_TRUE(found->binary.kernels.empty());
  ASSERT_EQ(found->binary.launches.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    const runtime::LaunchInfo &got = found->binary.launches[i], &want = ptx.launches[i];
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.grid, want.grid);
    EXPECT_EQ(got.block, want.block);
    EXPECT_EQ(got.shared_bytes, want.shared_bytes);
    EXPECT_EQ(got.arguments, want.arguments);
    EXPECT_EQ(got.waits, want.waits);
  }
  ASSERT_EQ(found->param_layouts.size(), 2u);
  EXPECT_TRUE(found->param_layouts[0].empty());
  EXPECT_EQ(schedule::to_text(found->param_layouts[1]), "d1 d0");
}

TEST_F(KernelCacheTest, GivesBackCodeLayoutsAndWorkspace) {
  const auto built = compile_op(dense(), packed_schedule(), target::host(), {.cache = cache()});
  ASSERT_TRUE(built.ok()) << built.error().message;
  EXPECT_FALSE(built->times.empty());
  const auto found = compile_op(dense(), packed_schedule(), target::host(), {.cache = cache()});
  ASSERT_TRUE(found.ok()) << found.error().message;
  EXPECT_TRUE(found->times.empty()) << "nothing was lowered or emitted";
  EXPECT_EQ(found->param_layouts, built->param_layouts);
  const auto info = [](const CompiledOp& op) {
    return static_cast<const runtime::CpuKernel&>(*op.code).info;
  };
  EXPECT_EQ(info(*found).shared_bytes, info(*built).shared_bytes);
  EXPECT_EQ(info(*found).worker_bytes, info(*built).worker_bytes);
  EXPECT_EQ(testing::mismatch(compute(*found), compute(*built), 0), "");
}

TEST_F(KernelCacheTest, KeysDifferInEverythingThatCodeFollowsFrom) {
  const std::string key = KernelCache::key(target::host(), {}, "a", "b");
  ASSERT_NE(key, "") << "the linker gives no build id";
  EXPECT_EQ(key, KernelCache::key(target::host(), {}, "a", "b"));
  target::Target other = target::host();
  other.l2_bytes += 1;
  EXPECT_NE(key, KernelCache::key(other, {}, "a", "b"));
  EXPECT_NE(key, KernelCache::key(target::host(), {.opt_level = 1}, "a", "b"));
  EXPECT_NE(key, KernelCache::key(target::host(), {}, "c", "b"));
  EXPECT_NE(key, KernelCache::key(target::host(), {}, "a", "c"));
  EXPECT_NE(key, KernelCache::key(target::host(), {}, "a", ""));
}

TEST_F(KernelCacheTest, EntriesThatAreNoKernelsAreNotLoaded) {
  const std::string key = KernelCache::key(target::host(), {}, "a", "b");
  const auto c = cache();
  EXPECT_FALSE(c->find(key, target::host()).has_value());
  ASSERT_TRUE(c->disk().store(key, "short").ok());
  EXPECT_FALSE(c->find(key, target::host()).has_value());
  runtime::Binary no_elf;
  no_elf.bytes = {1, 2, 3};
  no_elf.kernels = {{"f", 0, 0}};
  c->store(key, {no_elf, {}, 0});
  ASSERT_TRUE(c->find(key, target::host()).has_value());
  EXPECT_FALSE(runtime::load_kernel(c->find(key, target::host())->binary).ok());
  EXPECT_FALSE(c->find("", target::host()).has_value());
  c->store("", {no_elf, {}, 0});
  EXPECT_EQ(c->disk().usage().entries, 1);
}

TEST(DefaultLimit, FitsTheDisk) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  EXPECT_EQ(default_limit({500 * kGiB, 100 * kGiB}), 25 * kGiB) << "a quarter of what is free";
  EXPECT_EQ(default_limit({500 * kGiB, 400 * kGiB}), 500 * kGiB / 8) << "an eighth of the disk";
  EXPECT_EQ(default_limit({100 * kGiB, 10 * kGiB}), 4 * kGiB) << "what most models need";
  EXPECT_EQ(default_limit({100 * kGiB, 6 * kGiB}), 3 * kGiB) << "half of little";
  EXPECT_EQ(default_limit({100 * kGiB, 0}), 0);
  const auto here = disk_space("/absent/folder");
  ASSERT_TRUE(here.has_value());
  EXPECT_GE(here->capacity, here->available);
}

TEST_F(KernelCacheTest, TheEnvironmentSaysWhereAndHowMuch) {
  const auto set = [](const char* name, const char* value) {
    if (value == nullptr) {
      ::unsetenv(name);
    } else {
      ::setenv(name, value, 1);
    }
  };
  set("HOME", "/h");
  set("XDG_CACHE_HOME", nullptr);
  set("TESSERA_CACHE", nullptr);
  EXPECT_EQ(user_kernel_cache()->disk().folder(), "/h/.cache/tessera");
  // The disk of /h, of which others may write at the same time.
  const auto expect_default = [](std::int64_t limit) {
    const auto usual = static_cast<double>(default_limit(*disk_space("/h/.cache/tessera")));
    EXPECT_NEAR(static_cast<double>(limit) / usual, 1, 0.1);
  };
  expect_default(user_kernel_cache()->disk().limit_bytes());
  set("XDG_CACHE_HOME", "/x");
  EXPECT_EQ(user_kernel_cache()->disk().folder(), "/x/tessera");
  set("TESSERA_CACHE", "/t");
  set("TESSERA_CACHE_MB", "5");
  EXPECT_EQ(user_kernel_cache()->disk().folder(), "/t");
  EXPECT_EQ(user_kernel_cache()->disk().limit_bytes(), 5 << 20);
  set("TESSERA_CACHE_MB", "many");
  expect_default(user_kernel_cache()->disk().limit_bytes());
  set("TESSERA_CACHE", "off");
  EXPECT_EQ(user_kernel_cache(), nullptr);
  set("TESSERA_CACHE", nullptr);
  set("XDG_CACHE_HOME", nullptr);
  set("HOME", nullptr);
  EXPECT_EQ(user_kernel_cache(), nullptr);
  set("TESSERA_CACHE", "off");
}

}  // namespace
}  // namespace tessera::kernel
