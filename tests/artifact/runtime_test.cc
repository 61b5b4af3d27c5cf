#include <array>
#include <atomic>
#include <cstring>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/backend/artifact/digest.h"
#include "tessera/machine/target/features.h"
#include "tests/artifact/runtime_probe.h"

namespace tessera::artifact {
namespace {

TEST(CpuCheck, AgreesWithTheCompiler) {
  const target::Target& host = target::host();
  for (const target::Arch arch : {target::Arch::kAArch64, target::Arch::kX86_64}) {
    for (const std::string_view name : target::known_features(arch)) {
      const bool want = arch == host.arch && target::has_feature(host.features, name);
      EXPECT_EQ(probe_cpu_has(std::string(name).c_str()) != 0, want) << name;
    }
  }
  EXPECT_FALSE(probe_cpu_has("no-such-feature"));
}

TEST(Digest, EveryByteAndTheLengthCount) {
  std::vector<unsigned char> bytes(100);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<unsigned char>(i * 7);
  std::set<std::uint64_t> seen;
  for (std::size_t n = 0; n <= bytes.size(); ++n) seen.insert(probe_digest(bytes.data(), n));
  EXPECT_EQ(seen.size(), bytes.size() + 1);
  for (unsigned char& b : bytes) {
    b ^= 1;
    seen.insert(probe_digest(bytes.data(), bytes.size()));
    b ^= 1;
  }
  EXPECT_EQ(seen.size(), 2 * bytes.size() + 1);
  // Trailing zeros are padding inside, but not outside.
  const unsigned char zeros[64] = {};
  EXPECT_NE(probe_digest(zeros, 3), probe_digest(zeros, 4));
  EXPECT_EQ(probe_digest(bytes.data(), 100), tessera_artifact_digest(bytes.data(), 100));
}

struct Loop {
  std::vector<std::atomic<int>> hits;
  std::vector<std::atomic<int>> inside;
  std::atomic<bool> shared_worker{false};
  Loop(std::size_t n, std::size_t workers) : hits(n), inside(workers) {}
};

void count_hits(void* closure, std::int64_t begin, std::int64_t end, std::int32_t worker) {
  auto* loop = static_cast<Loop*>(closure);
  auto& mine = loop->inside.at(static_cast<std::size_t>(worker));
  if (mine.fetch_add(1) != 0) loop->shared_worker = true;
  for (std::int64_t i = begin; i < end; ++i) ++loop->hits[static_cast<std::size_t>(i)];
  mine.fetch_sub(1);
}

TEST(Pool, EveryIterationOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    tsr_host* host = probe_pool_create(threads);
    EXPECT_EQ(host->num_workers, threads);
    for (const std::int64_t n : {0, 1, 2, 7, 64, 1000}) {
      for (int repeat = 0; repeat < 50; ++repeat) {
        Loop loop(static_cast<std::size_t>(n), static_cast<std::size_t>(threads));
        host->parallel_for(host, count_hits, &loop, n);
        for (const auto& hit : loop.hits) ASSERT_EQ(hit.load(), 1);
        ASSERT_FALSE(loop.shared_worker.load());
      }
    }
    probe_pool_destroy(host);
  }
}

TEST(Pool, WakesSleepers) {
  tsr_host* host = probe_pool_create(3);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // longer than workers spin
    Loop loop(64, 3);
    host->parallel_for(host, count_hits, &loop, 64);
    for (const auto& hit : loop.hits) ASSERT_EQ(hit.load(), 1);
  }
  probe_pool_destroy(host);
}

// A program by hand: out = in + weight, through the arena.
std::int32_t add_kernel(void* const* params, void* workspace, tsr_host* host) {
  const auto* a = static_cast<const float*>(params[0]);
  const auto* b = static_cast<const float*>(params[1]);
  for (int i = 0; i < 4; ++i) static_cast<float*>(params[2])[i] = a[i] + b[i];
  std::memset(workspace, 0x55, 64 + 64 * static_cast<std::size_t>(host->num_workers));
  return a[0] == 99 ? 7 : 0;
}

class ContextTest : public ::testing::Test {
 protected:
  ContextTest() {
    info_ = tsr_model_info{};
    info_.name = "hand";
    info_.features = "";
    info_.weights_bytes = sizeof weights_;
    info_.arena_bytes = 64;
    info_.shared_bytes = 64;
    info_.worker_bytes = 64;
    info_.num_inputs = 1;
    info_.num_outputs = 2;
    info_.inputs = &in_;
    info_.outputs = outs_;
    info_.device_type = TSR_DL_CPU;
    program_ = {{&info_, reinterpret_cast<const unsigned char*>(weights_),
                 probe_digest(weights_, sizeof weights_), &copy_, 1},
                features_.data(),
                steps_,
                2,
                places_,
                3};
  }

  void TearDown() override { probe_close(context_); }

  tsr_status open(const tsr_open_options& options = {}) {
    return probe_open(&program_, &options, &context_);
  }
  tsr_status run(void* memory = nullptr) {
    const void* in[] = {in_data_};
    void* out[] = {out_data_, copy_data_};
    return probe_run(context_, in, out, memory);
  }
  void expect_result() {
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(out_data_[i], in_data_[i] + 2 * weights_[i]);
      EXPECT_EQ(copy_data_[i], in_data_[i]);
    }
  }

  const std::int64_t shape_[1] = {4};
  const tsr_tensor_info in_ = {"x", "f32", 2, 32, 1, shape_, 16};
  const tsr_tensor_info outs_[2] = {{"y", "f32", 2, 32, 1, shape_, 16},
                                    {"x_again", "f32", 2, 32, 1, shape_, 16}};
  alignas(64) const float weights_[4] = {1, 2, 3, 4};
  alignas(64) float in_data_[4] = {10, 20, 30, 40};
  alignas(64) float out_data_[4] = {};
  alignas(64) float copy_data_[4] = {};
  const tsr_place places_[6] = {{TSR_PLACE_INPUT, 0, 0, 16},   {TSR_PLACE_WEIGHTS, 0, 0, 16},
                                {TSR_PLACE_ARENA, 0, 0, 16},   {TSR_PLACE_ARENA, 0, 0, 16},
                                {TSR_PLACE_WEIGHTS, 0, 0, 16}, {TSR_PLACE_OUTPUT, 0, 0, 16}};
  const tsr_step steps_[2] = {{add_kernel, nullptr, 0, 3, "add"},
                              {add_kernel, nullptr, 3, 3, "add"}};
  const tsr_copy copy_ = {{TSR_PLACE_INPUT, 0, 0, 16}, 1};
  std::vector<const char*> features_ = {nullptr};
  tsr_model_info info_;
  tsr_program program_;
  tsr_context* context_ = nullptr;
};

TEST_F(ContextTest, RunsWithOwnAndGivenMemory) {
  ASSERT_EQ(open({.threads = 2}).code, TSR_OK);
  EXPECT_EQ(probe_memory_bytes(context_), 64 + 64 + 2 * 64);
  ASSERT_EQ(run().code, TSR_OK);
  expect_result();
  alignas(64) std::array<unsigned char, 256> memory{};
  std::memset(out_data_, 0, sizeof out_data_);
  ASSERT_EQ(run(memory.data()).code, TSR_OK);
  expect_result();
  EXPECT_EQ(run(memory.data() + 8).code, TSR_INVALID_ARGUMENT);
}

TEST_F(ContextTest, UnalignedTensorsAreCopied) {
  ASSERT_EQ(open({.threads = 1}).code, TSR_OK);
  alignas(64) float storage[64] = {};
  std::memcpy(storage + 1, in_data_, sizeof in_data_);
  const void* in[] = {storage + 1};
  void* out[] = {storage + 17, storage + 33};
  ASSERT_EQ(probe_run(context_, in, out, nullptr).code, TSR_OK);
  std::memcpy(out_data_, storage + 17, sizeof out_data_);
  std::memcpy(copy_data_, storage + 33, sizeof copy_data_);
  expect_result();
  EXPECT_EQ(storage[16], 0);
  EXPECT_EQ(storage[21], 0);
}

TEST_F(ContextTest, RefusesOverlapAndMissingTensors) {
  ASSERT_EQ(open({.threads = 1}).code, TSR_OK);
  const void* in[] = {in_data_};
  void* same[] = {in_data_ + 2, copy_data_};
  const tsr_status overlap = probe_run(context_, in, same, nullptr);
  EXPECT_EQ(overlap.code, TSR_INVALID_ARGUMENT);
  EXPECT_STREQ(overlap.message, "output y overlaps input x");
  void* twice[] = {out_data_, out_data_};
  EXPECT_STREQ(probe_run(context_, in, twice, nullptr).message, "outputs y and x_again overlap");
  void* missing[] = {nullptr, copy_data_};
  EXPECT_STREQ(probe_run(context_, in, missing, nullptr).message, "no memory given for y");
  EXPECT_EQ(probe_run(context_, nullptr, nullptr, nullptr).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(probe_run(nullptr, in, same, nullptr).code, TSR_INVALID_ARGUMENT);
}

TEST_F(ContextTest, NamesTheMissingFeature) {
  features_ = {"no-such-feature", nullptr};
  program_.features = features_.data();
  const tsr_status status = open();
  EXPECT_EQ(status.code, TSR_UNSUPPORTED);
  EXPECT_NE(std::string(status.message).find("lacks no-such-feature"), std::string::npos);
  EXPECT_EQ(context_, nullptr);
}

// Of variants the first that fits; one that is asked for must fit itself.
TEST_F(ContextTest, TakesTheFirstVariantThatFits) {
  const tsr_program second = program_;
  const char* const absent[] = {"no-such-feature", nullptr};
  program_.features = absent;
  program_.next = &second;
  ASSERT_EQ(open({.threads = 1}).code, TSR_OK);
  ASSERT_EQ(run().code, TSR_OK);
  expect_result();
  tsr_context* forced = nullptr;
  EXPECT_EQ(probe_open_variant(&program_, 1, &forced).code, TSR_UNSUPPORTED);
  ASSERT_EQ(probe_open_variant(&program_, 2, &forced).code, TSR_OK);
  probe_close(forced);
  for (const std::int32_t number : {3, -1}) {
    const tsr_status none = probe_open_variant(&program_, number, &forced);
    EXPECT_EQ(none.code, TSR_INVALID_ARGUMENT);
    EXPECT_EQ(std::string(none.message), "hand has no variant " + std::to_string(number));
    EXPECT_EQ(forced, nullptr);
  }
}

TEST_F(ContextTest, SaysWhatTheLastVariantLacks) {
  const char* const absent[] = {"no-such-feature", nullptr};
  tsr_program second = program_;
  program_.features = second.features = absent;
  program_.next = &second;
  const tsr_status status = open();
  EXPECT_EQ(status.code, TSR_UNSUPPORTED);
  EXPECT_NE(std::string(status.message)
                .find("lacks no-such-feature, which the last variant of hand was compiled for"),
            std::string::npos)
      << status.message;
}

TEST_F(ContextTest, ReportsTheKernelThatFailed) {
  in_data_[0] = 99;
  ASSERT_EQ(open({.threads = 1}).code, TSR_OK);
  const tsr_status status = run();
  EXPECT_EQ(status.code, TSR_RUN_FAILED);
  EXPECT_STREQ(status.message, "kernel add returned 7");
  in_data_[0] = 1;
  EXPECT_EQ(run().code, TSR_OK);
}

TEST_F(ContextTest, HostOfTheCaller) {
  tsr_host host{
      [](tsr_host*, tsr_body body, void* closure, std::int64_t n) { body(closure, 0, n, 0); }, 5,
      nullptr};
  ASSERT_EQ(open({.host = &host}).code, TSR_OK);
  EXPECT_EQ(probe_memory_bytes(context_), 64 + 64 + 5 * 64);
  ASSERT_EQ(run().code, TSR_OK);
  expect_result();
  host.num_workers = 0;
  tsr_context* none = nullptr;
  const tsr_open_options options{.host = &host};
  EXPECT_EQ(probe_open(&program_, &options, &none).code, TSR_INVALID_ARGUMENT);
}

TEST_F(ContextTest, WeightsFromMemoryAndFile) {
  program_.common.embedded = nullptr;
  EXPECT_NE(std::string(open().message).find("give weights_path"), std::string::npos);
  ASSERT_EQ(open({.threads = 1, .weights = weights_, .weights_bytes = sizeof weights_}).code,
            TSR_OK);
  ASSERT_EQ(run().code, TSR_OK);
  expect_result();
  probe_close(context_);

  const std::string path = ::testing::TempDir() + "artifact_weights";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(weights_), sizeof weights_);
  ASSERT_EQ(open({.threads = 1, .weights_path = path.c_str()}).code, TSR_OK);
  ASSERT_EQ(run().code, TSR_OK);
  expect_result();
}

TEST_F(ContextTest, RefusesArgumentsWithoutMeaning) {
  const auto message = [](const tsr_status& status) {
    EXPECT_EQ(status.code, TSR_INVALID_ARGUMENT);
    return std::string(status.message);
  };
  EXPECT_EQ(message(open({.threads = -3})), "threads must not be negative, but is -3");
  EXPECT_NE(message(open({.threads = 1, .weights_path = "/nonexistent"})).find("takes no weights"),
            std::string::npos);
  EXPECT_NE(message(open({.threads = 1, .weights = weights_, .weights_bytes = sizeof weights_}))
                .find("takes no weights"),
            std::string::npos);
}

TEST_F(ContextTest, RefusesOtherWeights) {
  program_.common.embedded = nullptr;
  alignas(64) float other[4] = {1, 2, 3, 5};
  const tsr_status damaged = open({.weights = other, .weights_bytes = sizeof other});
  EXPECT_EQ(damaged.code, TSR_INVALID_ARGUMENT);
  EXPECT_NE(std::string(damaged.message).find("damaged or of another build"), std::string::npos);
  EXPECT_EQ(open({.weights = other, .weights_bytes = 8}).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(open({.weights = other + 1, .weights_bytes = sizeof other}).code, TSR_INVALID_ARGUMENT);
  EXPECT_EQ(open({.weights_path = "/nonexistent/weights"}).code, TSR_IO);
  const std::string path = ::testing::TempDir() + "artifact_short_weights";
  std::ofstream(path) << "short";
  EXPECT_NE(std::string(open({.weights_path = path.c_str()}).message).find("must have 16 bytes"),
            std::string::npos);
  ASSERT_EQ(
      open({.threads = 1, .weights = other, .weights_bytes = sizeof other, .trust_weights = 1})
          .code,
      TSR_OK);
}

TEST_F(ContextTest, LongMessagesAreCutVisibly) {
  const std::string name(1000, 'n');
  info_.name = name.c_str();
  program_.common.embedded = nullptr;
  const tsr_status status = open();
  EXPECT_EQ(std::strlen(status.message), sizeof status.message - 1);
  EXPECT_STREQ(status.message + std::strlen(status.message) - 3, "...");
}

TEST_F(ContextTest, ContextsRunAtTheSameTime) {
  ASSERT_EQ(open({.threads = 2}).code, TSR_OK);
  std::atomic<int> wrong{0};
  const auto work = [&] {
    tsr_context* mine = nullptr;
    const tsr_open_options options{.threads = 2};
    if (probe_open(&program_, &options, &mine).code != TSR_OK) ++wrong;
    for (int i = 0; i < 200; ++i) {
      alignas(64) float y[4], again[4];
      const void* in[] = {in_data_};
      void* out[] = {y, again};
      if (probe_run(mine, in, out, nullptr).code != TSR_OK || y[3] != 48) ++wrong;
    }
    probe_close(mine);
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace tessera::artifact
