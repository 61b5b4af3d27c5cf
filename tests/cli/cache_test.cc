// Kernels that one run leaves for the next.
#include <filesystem>
#include <fstream>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// `tessera ARGS` with a cache of the test's own.
class Cache : public ::testing::Test {
 protected:
  Cache() : folder_(fs::path(write_file("here", "")).parent_path() / "cache") {
    fs::remove_all(folder_);
  }

  Finished cached(const std::string& args, const std::string& environment = "") const {
    return run_shell("TESSERA_CACHE=" + folder_.string() + " " + environment + " tessera " + args);
  }
  json bench(const std::string& flags = "") const {
    const Finished result = cached("bench zoo:lenet --json --samples 1 --time-limit 0.05 " + flags);
    EXPECT_EQ(result.code, 0) << result.err;
    return json::parse(result.out).at("results").at(0);
  }
  json shown() const { return json::parse(cached("cache show --json").out); }

  fs::path folder_;
};

TEST_F(Cache, TheSecondStartFindsEveryKernelAndComputesTheSame) {
  const json first = bench();
  EXPECT_EQ(first.at("cached_kernels"), 0);
  EXPECT_GE(shown().at("entries"), first.at("kernels"));
  const json second = bench();
  EXPECT_EQ(second.at("cached_kernels"), second.at("kernels"));
  EXPECT_EQ(second.at("verified"), true);
  EXPECT_EQ(bench("--no-cache").at("cached_kernels"), 0);
  const std::string run_model = "run zoo:lenet --random --output ";
  const std::string fresh = write_file("fresh.npz", ""), kept = write_file("kept.npz", "");
  EXPECT_EQ(cached(run_model + fresh + " --no-cache").code, 0);
  EXPECT_EQ(cached(run_model + kept).code, 0);
  EXPECT_EQ(read_file(fresh), read_file(kept));
}

TEST_F(Cache, DamagedEntriesAreBuiltAgain) {
  const json first = bench();
  int damaged = 0;
  for (const auto& e : fs::recursive_directory_iterator(folder_)) {
    if (!e.is_regular_file()) continue;
    std::fstream file(e.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(e.file_size() / 2));
    file.put('\x7f');
    file.put('\x45');
    ++damaged;
  }
  EXPECT_GE(damaged, first.at("kernels"));
  const json again = bench();
  EXPECT_EQ(again.at("cached_kernels"), 0);
  EXPECT_EQ(again.at("verified"), true);
  EXPECT_EQ(bench().at("cached_kernels"), again.at("kernels"));
}

TEST_F(Cache, ShowAndClear) {
  bench();
  const Finished text = cached("cache show");
  EXPECT_EQ(text.code, 0);
  EXPECT_EQ(text.out.rfind(folder_.string() + ": ", 0), 0u) << text.out;
  EXPECT_EQ(cached("cache clear").code, 0);
  EXPECT_EQ(shown().at("entries"), 0);
  const Finished off = run({"cache", "show"});
  EXPECT_EQ(off.code, 0);
  EXPECT_NE(off.out.find("no cache"), std::string::npos) << off.out;
  EXPECT_EQ(run({"cache", "clear"}).code, 0);
  EXPECT_EQ(run({"cache"}).code, 2);
}

TEST_F(Cache, KeepsToItsLimit) {
  EXPECT_EQ(cached("run zoo:lenet --random", "TESSERA_CACHE_MB=0").code, 0);
  EXPECT_EQ(shown().at("entries"), 0);
}

TEST_F(Cache, APlaceThatCannotBeWrittenIsNoError) {
  std::ofstream(folder_.string()) << "a file";
  EXPECT_EQ(bench().at("cached_kernels"), 0);
  EXPECT_EQ(shown().at("entries"), 0);
}

}  // namespace
}  // namespace tessera::cli
