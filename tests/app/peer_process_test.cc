#include "tessera/app/bench/peer_process.h"

#include <cmath>
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tessera/app/bench/peer_program.h"
#include "tessera/app/bench/peer_wire.h"

namespace tessera::app {
namespace {

// Counts its runs into its one output; ends as told in the run of that number.
class CountingWork final : public PeerWork {
 public:
  CountingWork(int fail_at, int crash_at) : fail_at_(fail_at), crash_at_(crash_at) {}
  std::string version() const override { return "counter 1"; }
  Result<void> run() override {
    ++runs_;
    if (runs_ == crash_at_) {
      std::signal(SIGSEGV, SIG_DFL);  // libraries that other tests opened handle it
      raise(SIGSEGV);
    }
    if (runs_ == fail_at_) return make_error(ErrorCode::kRunFailed, "run {} failed", runs_);
    return {};
  }
  Result<std::vector<HostTensor>> outputs() override {
    HostTensor out(DType::kF32, {3});
    for (int i = 0; i < 3; ++i) out.set_float(i, 10 * runs_ + i);
    return std::vector<HostTensor>{out};
  }

 private:
  int fail_at_, crash_at_, runs_ = 0;
};

Result<std::unique_ptr<PeerProcess>> start(int fail_at, int crash_at) {
  return PeerProcess::start(
      [=]() -> Result<std::unique_ptr<PeerWork>> {
        return std::unique_ptr<PeerWork>(std::make_unique<CountingWork>(fail_at, crash_at));
      },
      {HostTensor(DType::kF32, {3})});
}

TEST(PeerWire, TellsWhatNoPeerCanHaveSent) {
  constexpr std::int32_t kLast = 7;
  EXPECT_TRUE(is_plausible(PeerGreeting{.ok = 1, .code = 99, .length = 5}, kLast));
  EXPECT_TRUE(is_plausible(PeerGreeting{.ok = 0, .code = kLast, .length = 1 << 16}, kLast));
  EXPECT_FALSE(is_plausible(PeerGreeting{.ok = 0, .code = kLast + 1, .length = 5}, kLast));
  EXPECT_FALSE(is_plausible(PeerGreeting{.ok = 0, .code = -1, .length = 5}, kLast));
  EXPECT_FALSE(is_plausible(PeerGreeting{.ok = 1, .code = 0, .length = 1 << 17}, kLast));
  EXPECT_TRUE(is_plausible(PeerReply{.total_s = 1, .wait_s = 0, .late_wait_s = 0, .ok = 1}));
  EXPECT_FALSE(is_plausible(PeerReply{.total_s = -1, .wait_s = 0, .late_wait_s = 0, .ok = 1}));
  EXPECT_FALSE(is_plausible(PeerReply{.total_s = NAN, .wait_s = 0, .late_wait_s = 0, .ok = 1}));
  EXPECT_FALSE(
      is_plausible(PeerReply{.total_s = 1, .wait_s = INFINITY, .late_wait_s = 0, .ok = 1}));
}

TEST(PeerProcess, RunsElsewhereAndReturnsItsOutputs) {
  const auto process = start(-1, -1);
  ASSERT_TRUE(process.ok()) << process.error().message;
  EXPECT_EQ((*process)->version(), "counter 1");
  ASSERT_EQ((*process)->outputs().size(), 1u);
  EXPECT_EQ((*process)->outputs()[0].get_float(2), 12);
  for (int i = 0; i < 3; ++i) {
    const auto taken = (*process)->sample(2, true);
    ASSERT_TRUE(taken.has_value());
    EXPECT_GE(taken->sample.total_s, 0);
    EXPECT_GE(taken->sample.wait_s, 0);
  }
}

TEST(PeerProcess, ErrorsOfTheWorkKeepTheirCode) {
  const auto refused = PeerProcess::start(
      []() -> Result<std::unique_ptr<PeerWork>> {
        return make_error(ErrorCode::kUnsupported, "no such operation");
      },
      {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(refused.error().message, "no such operation");
  const auto failed = start(1, -1);
  ASSERT_FALSE(failed.ok());
  EXPECT_EQ(failed.error().message, "run 1 failed");
}

TEST(PeerProcess, ACrashIsAnErrorNotOurEnd) {
  const auto crashed = start(-1, 1);
  ASSERT_FALSE(crashed.ok());
  EXPECT_EQ(crashed.error().code, ErrorCode::kRunFailed);
  EXPECT_THAT(crashed.error().message, testing::HasSubstr("its process ended"));
  const auto later = start(-1, 4);
  ASSERT_TRUE(later.ok());
  EXPECT_TRUE((*later)->sample(1, true).has_value());
  EXPECT_FALSE((*later)->sample(1, false).has_value());
  EXPECT_FALSE((*later)->sample(1, false).has_value());
  const auto failing = start(2, -1);
  ASSERT_TRUE(failing.ok());
  EXPECT_FALSE((*failing)->sample(1, false).has_value());
}

// The clock of a device, which runs a thousand times as fast as that of the process.
class TimedWork final : public PeerWork {
 public:
  std::string version() const override { return "timed 1"; }
  Result<void> run() override { return {}; }
  Result<double> time(int calls) override {
    if (calls > 99) return make_error(ErrorCode::kRunFailed, "too many");
    return 1e3 * calls;
  }
  Result<std::vector<HostTensor>> outputs() override { return std::vector<HostTensor>{}; }
};

TEST(PeerProcess, TheClockOfADeviceCounts) {
  const auto process = PeerProcess::start(
      []() -> Result<std::unique_ptr<PeerWork>> {
        return std::unique_ptr<PeerWork>(std::make_unique<TimedWork>());
      },
      {});
  ASSERT_TRUE(process.ok());
  const auto sample = (*process)->sample(3, true);
  ASSERT_TRUE(sample.has_value());
  EXPECT_EQ(sample->sample.total_s, 3e3);
  EXPECT_FALSE((*process)->sample(100, false).has_value());
}

// What is sent to the program that serves an operation, and what it says.
std::string answer_to(const std::string& sent) {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(write(ends[0], sent.data(), sent.size()), static_cast<ssize_t>(sent.size()));
  shutdown(ends[0], SHUT_WR);
  const Result<void> served = serve_peer_program(ends[1]);
  close(ends[0]);
  close(ends[1]);
  return served.ok() ? "" : served.error().message;
}

std::string with_length(const std::string& text) {
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

TEST(PeerProgram, RefusesWhatIsNoJob) {
  using testing::HasSubstr;
  EXPECT_THAT(answer_to(""), HasSubstr("not a socket with a job"));
  EXPECT_THAT(answer_to("eight eight eight"), HasSubstr("not a job for a peer"));
  EXPECT_THAT(answer_to(with_length("{\"peer\": 1}")), HasSubstr("not a job for a peer"));
  EXPECT_THAT(answer_to(with_length(R"({"peer": "none", "spec": "", "threads": 1,)"
                                    R"( "inputs": [[4]], "output": [4]})")),
              HasSubstr("not a socket with a job"));
}

TEST(PeerProgram, SaysWhatThePeerSays) {
  EXPECT_EQ(answer_to(with_length(R"({"peer": "none", "spec": "", "threads": 1,)"
                                  R"( "inputs": [], "output": [4]})")),
            "");  // the reason went to the other end
}

TEST(PeerProcess, ExceptionsOfALibraryAreErrors) {
  const auto thrown = PeerProcess::start(
      []() -> Result<std::unique_ptr<PeerWork>> { throw std::runtime_error("no memory"); }, {});
  ASSERT_FALSE(thrown.ok());
  EXPECT_EQ(thrown.error().message, "no memory");
}

}  // namespace
}  // namespace tessera::app
