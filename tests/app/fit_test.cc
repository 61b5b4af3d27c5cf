#include "tessera/app/bench/fit.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/app/bench/device_probes.h"
#include "tessera/app/bench/probes.h"
#include "tessera/backend/codegen/codegen.h"
#include "tessera/lang/ir/text.h"
#include "tessera/lang/ir/verify.h"
#include "tessera/lang/te/op_spec.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/machine/target/cpus.h"
#include "tessera/scheduling/space/default_schedule.h"
#include "tessera/support/quantile.h"

namespace tessera::app {
namespace {

void expect_complete(const target::MachineRow& row) {
  for (const target::RateField& field : target::rate_fields()) {
    if (!target::has_rate(row.target, field)) continue;
    const double value = row.target.rates.*field.value;
    const bool instruction = field.name.find("dots") != std::string_view::npos ||
                             field.name.find("matrix") != std::string_view::npos ||
                             field.name.find("mma_per") != std::string_view::npos;
    EXPECT_TRUE(value > 0 || (instruction && value == 0)) << field.name << " = " << value;
    EXPECT_EQ(value > 0, row.sources.contains(field.name)) << field.name;
  }
  const Result<target::MachineRow> read = target::machine_row_from_json(to_json(row), "fitted");
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(to_text(read->target.rates), to_text(row.target.rates));
}

TEST(Fit, NumbersOfARowHaveFewDigits) {
  EXPECT_DOUBLE_EQ(rounded_rate(12345), 12000);
  EXPECT_DOUBLE_EQ(rounded_rate(0.0456), 0.046);
  EXPECT_EQ(rounded_rate(0), 0);
  EXPECT_EQ(rounded_ports(1.93), 2);
  EXPECT_EQ(rounded_ports(1.5), 2);
  EXPECT_EQ(rounded_ports(2.1), 2);
  EXPECT_EQ(rounded_ports(0.48), 0.5);
  EXPECT_EQ(rounded_ports(0.01), 0.25);
}

TEST(Fit, TheHostHasEveryRate) {
  int told = 0;
  FitOptions options{.seconds_per_rate = 0.02};
  options.progress = [&](const std::string&) { ++told; };
  const Result<target::MachineRow> row = fit_host(options);
  ASSERT_TRUE(row.ok()) << row.error().message;
  EXPECT_GE(told, 3);
  expect_complete(*row);
  EXPECT_EQ(to_text(row->target), to_text(target::host()));
  EXPECT_GT(row->target.rates.clock_mhz, 100);
  EXPECT_GE(row->target.rates.l2_bytes_per_cycle, row->target.rates.memory_bytes_per_cycle / 2);
}

TEST(Fit, ABusyMachineIsTold) {
  EXPECT_LT(disturbance({1.0, 1.05, 1.02}), kSteady);
  EXPECT_LT(disturbance({1.0, 1.01, 9.0}), kSteady);  // one bad round of three
  EXPECT_DOUBLE_EQ(disturbance({1.0, 1.5, 9.0}), 0.5);
  EXPECT_DOUBLE_EQ(disturbance({1.0, 1.0}, 6, 2), 2);  // every round waited for processors
  EXPECT_EQ(disturbance({}), 0);
  std::vector<std::string> told;
  FitOptions options;
  options.disturbed = [&](std::string_view rate, double) { told.emplace_back(rate); };
  EXPECT_EQ(tell_disturbed(options, "steady", 0.02), "");
  EXPECT_EQ(tell_disturbed(options, "busy", 0.5), ", disturbed by 50 %");
  EXPECT_EQ(told, std::vector<std::string>{"busy"});
}

// A function that takes much longer whenever something else runs: in all rounds but the first.
TEST(Fit, RoundsOfAProbeShowThatOthersRan) {
  static int calls;
  calls = 0;
  runtime::ThreadPool pool(probe_pool(1));
  std::vector<Probe> probe(1);
  probe[0] = clock_probe(target::host(), pool).value();
  probe[0].code->entry = [](void* const*, void*, tsr_host*) -> std::int32_t {
    std::this_thread::sleep_for(std::chrono::milliseconds(++calls > 3 ? 20 : 1));
    return 0;
  };
  measure(probe, pool, {.samples = 10, .time_limit_s = 60});
  ASSERT_GE(probe[0].round_s.size(), 3u);
  EXPECT_EQ(probe[0].best_s, *std::ranges::min_element(probe[0].round_s));
  EXPECT_GT(disturbance(probe[0].round_s), kSteady);
  EXPECT_GT(probe[0].disturbed(), kSteady);
}

TEST(Fit, OnlyWhatIsAskedForIsMeasured) {
  const Result<target::MachineRow> row =
      fit_host({.rates = {"fma_per_cycle"}, .seconds_per_rate = 0.02});
  ASSERT_TRUE(row.ok()) << row.error().message;
  EXPECT_NE(row->sources.at("fma_per_cycle").find("machine fit"), std::string::npos);
  EXPECT_EQ(row->target.rates.memory_bytes_per_cycle, target::host().rates.memory_bytes_per_cycle);
}

// Threads on every processor that stream through more memory than caches hold; more than one, so
// that they take most of the time of a machine that others use, too.
class MemoryHog {
 public:
  MemoryHog() {
    constexpr std::size_t bytes = 64 << 20;
    for (int i = 0; i < 4 * target::usable_cpus(); ++i)
      threads_.emplace_back([this] {
        std::vector<std::uint64_t> data(bytes / 8, 1);
        while (!stop_) {
          for (std::size_t at = 0; at < data.size(); at += 8) data[at] += 3;
        }
      });
  }
  ~MemoryHog() { stop_ = true; }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::jthread> threads_;
};

TEST(Fit, BandwidthFallsBesideAMemoryHog) {
  const FitOptions options{.rates = {"all_memory_bytes_per_cycle"}, .seconds_per_rate = 0.1};
  const auto bytes = [&] {
    const Result<target::MachineRow> row = fit_host(options);
    EXPECT_TRUE(row.ok());
    return row.ok() ? row->target.rates.all_memory_bytes_per_cycle * row->target.rates.clock_mhz
                    : 0;
  };
  std::vector<double> alone, beside;
  for (int turn = 0; turn < 3; ++turn) {
    alone.push_back(bytes());
    const MemoryHog hog;
    beside.push_back(bytes());
  }
  EXPECT_GT(median(alone), median(beside));
}

TEST(Fit, WithoutADeviceTheReasonIsGiven) {
  if (runtime::open_device(target::Kind::kCuda).ok()) GTEST_SKIP() << "there is one";
  const Result<target::MachineRow> row = fit_device(target::Kind::kCuda, {});
  ASSERT_FALSE(row.ok());
  EXPECT_EQ(row.error().code, ErrorCode::kUnavailable);
  EXPECT_FALSE(row.error().message.empty());
}

TEST(Fit, DevicesAtHandHaveEveryRate) {
  bool any = false;
  for (const target::Kind kind : {target::Kind::kCuda, target::Kind::kOpenCl}) {
    if (!runtime::open_device(kind).ok()) continue;
    any = true;
    const Result<target::MachineRow> row = fit_device(kind, {.seconds_per_rate = 0.02});
    ASSERT_TRUE(row.ok()) << row.error().message;
    expect_complete(*row);
  }
  if (!any) GTEST_SKIP() << "no GPU";
}

std::string ptx_of(const std::string& text) {
  const auto program = ir::parse_device_program(text);
  if (!program.ok()) return program.error().message + text;
  if (const auto verified = ir::verify(*program); !verified.ok()) return verified.error().message;
  const auto binary = codegen::compile(*program, target::find_target("h200").value());
  if (!binary.ok()) return binary.error().message;
  return {binary->bytes.begin(), binary->bytes.end()};
}

// What a probe counts must stand in its loop, and nothing else may wait there.
TEST(DeviceProbes, LoopsHoldWhatTheyCount) {
  const target::Target t = target::find_target("h200").value();
  const auto loop = [](const std::string& ptx) {
    const std::size_t begin = ptx.find("$L__BB0_1:"), end = ptx.rfind("bra");
    EXPECT_NE(begin, std::string::npos) << ptx;
    return begin == std::string::npos ? "" : ptx.substr(begin, end - begin);
  };
  const auto count = [](const std::string& text, const std::string& what) {
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
      ++n;
    return n;
  };
  const std::string fma = loop(ptx_of(multiply_adds(t, kBusyWarps, kSums, 1024)));
  EXPECT_GE(count(fma, "fma.rn.f32"), kSums * kUnrolledSums) << fma;
  EXPECT_EQ(count(fma, "ld.global"), 0) << fma;
  EXPECT_GE(count(loop(ptx_of(barriers(t, 1024))), "bar.sync"), 1);
  const std::string shared = loop(ptx_of(shared_reads(t, 1024)));
  EXPECT_GE(count(shared, "ld.shared.v4"), 8) << shared;
  const std::string read = loop(ptx_of(reads(t, Walkers::kOne, t.l2_bytes / 4, 32)));
  EXPECT_GE(count(read, "ld.global"), 4) << read;
  EXPECT_GE(count(loop(ptx_of(writes(t, t.l2_bytes / 4, 32))), "st.global.v4"), 4);
  const std::string warps = loop(ptx_of(warp_products(t, 1024)));
  EXPECT_GE(count(warps, "mma.sync"), 8) << warps;
  EXPECT_EQ(count(warps, "ld."), 0) << warps;
  EXPECT_GE(count(loop(ptx_of(group_products(t, 1024))), "wgmma.mma_async"), 4);
  EXPECT_GE(count(loop(ptx_of(chase(1 << 20, 4096))), "ld.global"), 1);
  EXPECT_NE(ptx_of(tiny_kernel()).find("st.global"), std::string::npos);
  EXPECT_NE(ptx_of(waves_of_blocks(t, 264)).find("bar.sync"), std::string::npos);
}

// A machine of which nothing is known but its row: a default follows from it.
TEST(MachineRows, AMadeUpMachineDrivesDefaults) {
  const te::OpSpec spec = te::parse_op_spec("matmul:M=512,N=512,K=512").value();
  const te::Dag dag = te::make_dag(spec).value();
  target::MachineRow row = target::shipped_row(target::find_target("skylake-avx512").value());
  row.target.name = "toy-cpu";
  const auto text_of = [&](const target::MachineRow& r) {
    const Result<target::MachineRow> read = target::machine_row_from_json(to_json(r), "toy");
    EXPECT_TRUE(read.ok()) << read.error().message;
    const auto schedule = space::default_schedule(dag, read->target);
    EXPECT_TRUE(schedule.ok()) << schedule.error().message;
    return schedule::to_text(*schedule);
  };
  const std::string usual = text_of(row);
  // Loads that hardly come through: tiles that load less for each product are better.
  row.target.rates.loads_per_cycle = 0.1;
  EXPECT_NE(text_of(row), usual);
}

// Whatever number a row may have, there is a schedule.
TEST(MachineRows, RatesAtTheirLimitsDriveDefaultsToo) {
  const te::Dag dag = te::make_dag(te::parse_op_spec("matmul:M=64,N=512,K=512").value()).value();
  for (const target::RateField& field : target::rate_fields()) {
    for (const double value : {1e-6, 1e9}) {
      target::MachineRow row = target::shipped_row(target::find_target("x86-64-v4").value());
      if (!target::has_rate(row.target, field)) continue;
      row.target.rates.*field.value = value;
      const Result<target::MachineRow> read = target::machine_row_from_json(to_json(row), "limits");
      ASSERT_TRUE(read.ok()) << read.error().message;
      const auto schedule = space::default_schedule(dag, read->target);
      EXPECT_TRUE(schedule.ok()) << field.name << " " << schedule.error().message;
    }
  }
}

}  // namespace
}  // namespace tessera::app
