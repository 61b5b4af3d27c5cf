#include "tessera/app/bench/peer_driver.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <optional>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tessera/app/bench/bench_model.h"
#include "tessera/app/bench/peer.h"
#include "tessera/machine/target/target.h"

namespace tessera::app {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

HostTensor numbers(std::int64_t count) {
  HostTensor t(DType::kF32, {count});
  for (std::int64_t i = 0; i < count; ++i) t.set_float(i, static_cast<double>(i % 100));
  return t;
}

Result<std::unique_ptr<PeerProcess>> start(const PeerDriver& driver, const PeerLimits& limits = {},
                                           std::int64_t count = 3) {
  return start_driver_peer(driver, {.peer = "openvino", .model = "model.onnx", .threads = 5},
                           {{"x"}, {numbers(count)}}, {{"y"}, {HostTensor(DType::kF32, {count})}},
                           limits);
}

Result<std::unique_ptr<PeerProcess>> start(const std::string& how, const PeerLimits& limits = {},
                                           std::int64_t count = 3) {
  return start(PeerDriver{FAKE_PEER_DRIVER, how}, limits, count);
}

TEST(PeerDriver, TakesTheJobAndReturnsOutputsAndSamples) {
  const auto process = start("doubles");
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_EQ((*process)->version(), "openvino with 5");
  EXPECT_EQ((*process)->outputs()[0].get_float(2), 4);
  const auto cold = (*process)->sample(7, false);
  ASSERT_TRUE(cold.has_value());
  EXPECT_DOUBLE_EQ(cold->sample.total_s, 7e-3);
  EXPECT_EQ(cold->sample.wait_s, 0);
  EXPECT_EQ(cold->late_wait_s, 2);
  EXPECT_EQ((*process)->sample(1, true)->sample.wait_s, 1);
}

TEST(PeerDriver, ErrorsKeepTheirCode) {
  const auto refused = start("unsupported");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "no such thing");
  const auto absent = start("unavailable");
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().code, ErrorCode::kUnavailable);
  // Which of several interpreters was asked is half of the answer.
  EXPECT_EQ(absent.error().message, std::string(FAKE_PEER_DRIVER) + ": no such thing");
}

TEST(PeerDriver, AnEndIsAnErrorWithWhatWasPrintedLast) {
  const auto ended = start("ends");
  ASSERT_FALSE(ended.ok());
  EXPECT_EQ(ended.error().code, ErrorCode::kRunFailed);
  EXPECT_EQ(ended.error().message, "its process ended (the library is broken)");
  const auto crashed = start("crashes");
  ASSERT_FALSE(crashed.ok());
  EXPECT_THAT(crashed.error().message, HasSubstr("its process ended: Segmentation fault"));
  const auto later = start("dies");
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE((*later)->sample(1, false).has_value());
  EXPECT_FALSE((*later)->sample(1, false).has_value());
  EXPECT_FALSE((*later)->sample(1, false).has_value());
  const auto failing = start("fails");
  ASSERT_TRUE(failing.ok());
  EXPECT_FALSE((*failing)->sample(1, false).has_value());
}

TEST(PeerDriver, AHangEndsWithItsTimeLimit) {
  const PeerLimits limits{.start_s = 0.2, .sample_s = 0.2};
  // More than a socket holds, so that sending it would wait too.
  const auto deaf = start("deaf", limits, 4'000'000);
  ASSERT_FALSE(deaf.ok());
  EXPECT_EQ(deaf.error().code, ErrorCode::kRunFailed);
  EXPECT_THAT(deaf.error().message, HasSubstr("not ready after"));
  const auto hanging = start("hangs", {.start_s = 60, .sample_s = 0.2});
  ASSERT_TRUE(hanging.ok());
  EXPECT_TRUE((*hanging)->sample(1, false).has_value());
  EXPECT_FALSE((*hanging)->sample(1, false).has_value());
  EXPECT_FALSE((*hanging)->sample(1, false).has_value());
}

TEST(PeerDriver, AnotherProtocolIsRefused) {
  const auto chatter = start("chatter");
  ASSERT_FALSE(chatter.ok());
  EXPECT_EQ(chatter.error().message, "it speaks another protocol");
}

TEST(PeerDriver, WithoutScriptOrInterpreterAPeerIsAbsent) {
  const auto scriptless = start(PeerDriver{"python3", ""});
  ASSERT_FALSE(scriptless.ok());
  EXPECT_EQ(scriptless.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(scriptless.error().message, HasSubstr("TESSERA_PEERS_DRIVER"));
  const auto gone = start(PeerDriver{"/no/such/python3", "driver.py"});
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(gone.error().message, "/no/such/python3: its program cannot be started");
}

TEST(Peer, AMissingModuleIsNamedWithItsFolders) {
  const auto missing = open_peer("no_such_peer", "matmul:M=1,N=1,K=1", 1);
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(missing.error().message, HasSubstr("no libtessera_peer_no_such_peer.so in /"));
  EXPECT_THAT(missing.error().message, HasSubstr("/lib/tessera/peers"));
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~Environment() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// Whether `file` comes before `other` ends.
template <class T>
bool appears(const fs::path& file, const std::future<T>& other) {
  while (!fs::exists(file)) {
    if (other.wait_for(std::chrono::milliseconds(5)) == std::future_status::ready) return false;
  }
  return true;
}

TEST(PeerDriver, TheScriptWaitsAtTheGate) {
  const fs::path folder = fs::path(::testing::TempDir()) / "peer_gate" / "run";
  fs::remove_all(folder);
  fs::create_directories(folder);
  const Environment gate("TESSERA_PEERS_GATE", folder.c_str());
  for (const char* step : {"prepare", "time"})
    std::ofstream(folder / fmt::format("openvino.{}.hold", step));
  std::future<Result<std::unique_ptr<PeerProcess>>> started = std::async(std::launch::async, [] {
    return start(PeerDriver{"python3", PEER_DRIVER}, {.start_s = 60});
  });
  if (!appears(folder / "openvino.prepare", started)) {
    const auto failed = started.get();
    ASSERT_THAT(failed.error().message, HasSubstr("cannot be started"));
    GTEST_SKIP() << "no python3";
  }
  EXPECT_FALSE(fs::exists(folder / "openvino.time"));
  fs::remove(folder / "openvino.prepare.hold");
  ASSERT_TRUE(appears(folder / "openvino.time", started));
  EXPECT_NE(started.wait_for(std::chrono::seconds(0)), std::future_status::ready);
  fs::remove(folder / "openvino.time.hold");
  EXPECT_FALSE(started.get().ok());  // there is no such model, or no OpenVINO
}

// Files are locked by whoever opened them, so that one process can see both sides.
TEST(PeerDriver, DecisionsByTimingExcludeEachOther) {
  if (std::system("python3 -c ''") != 0) GTEST_SKIP() << "no python3";
  const fs::path folder = fs::path(::testing::TempDir()) / "peer_lock" / "run";
  fs::create_directories(folder);
  const Environment gate("TESSERA_PEERS_GATE", folder.c_str());
  const Environment modules("PYTHONPATH", fs::path(PEER_DRIVER).parent_path().c_str());
  const Environment lock("LOCK", (folder.parent_path() / "lock").c_str());
  const char* const both = R"(python3 -B -c '
import driver, fcntl, os
def free():
    try:
        fcntl.flock(open(os.environ["LOCK"], "w"), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
with driver.undisturbed():
    assert not free()
assert free()
del os.environ["TESSERA_PEERS_GATE"]
with driver.undisturbed():
    assert free()
')";
  EXPECT_EQ(std::system(both), 0);
}

// What a user of an interpreter without any of the libraries is told, by the script itself.
TEST(PeerDriver, TheScriptNamesTheModuleThatIsMissing) {
  const auto absent = start(PeerDriver{"python3", PEER_DRIVER});
  if (!absent.ok() && absent.error().message.find("cannot be started") != std::string::npos)
    GTEST_SKIP() << "no python3";
  ASSERT_FALSE(absent.ok());  // or it has OpenVINO, and there is no such model
  if (absent.error().code == ErrorCode::kUnavailable) {
    EXPECT_THAT(absent.error().message, HasSubstr("python3: no module "));
    EXPECT_THAT(absent.error().message, HasSubstr("./do peers installs it"));
  } else {
    EXPECT_EQ(absent.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(absent.error().message, HasSubstr("model.onnx"));
  }
}

ModelBenchResult bench_mlp(const char* how) {
  const Environment interpreter("TESSERA_PEERS_PYTHON", FAKE_PEER_DRIVER);
  const Environment script("TESSERA_PEERS_DRIVER", how);
  ModelBenchOptions options;
  options.peers = {"openvino"};
  options.timing = {.samples = 1, .time_limit_s = 0.01};
  auto result = bench_model("zoo:mlp", options);
  EXPECT_TRUE(result.ok()) << result.error().message;
  return result.ok() ? *result : ModelBenchResult{};
}

TEST(PeerDriver, WrongOutputsAreToldAndDoNotCount) {
  const ModelBenchResult result = bench_mlp("zeros");
  const BenchResult& wrong = result.bench;
  ASSERT_EQ(wrong.peers.size(), 1u);
  EXPECT_EQ(wrong.peers[0].absent, "");
  EXPECT_FALSE(wrong.peers[0].verified);
  EXPECT_GT(wrong.peers[0].max_error, 1);
  EXPECT_EQ(best_peer(wrong), nullptr);
  EXPECT_TRUE(wrong.verified);  // the nodes alone say the same as the model
  EXPECT_EQ(result.verified_by, "every node alone");
}

TEST(PeerDriver, AnAbsentPeerLeavesTheComparisonWithOurselves) {
  const ModelBenchResult absent = bench_mlp("unavailable");
  ASSERT_EQ(absent.bench.peers.size(), 1u);
  EXPECT_THAT(absent.bench.peers[0].absent, HasSubstr("no such thing"));
  EXPECT_TRUE(absent.bench.verified);
  EXPECT_EQ(absent.verified_by, "every node alone");
  const ModelBenchResult dead = bench_mlp("dies");
  ASSERT_EQ(dead.bench.peers.size(), 1u);
  EXPECT_EQ(dead.bench.peers[0].absent, "its process ended");
}

}  // namespace
}  // namespace tessera::app
