#include "tessera/app/bench/fit.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/app/bench/device_probes.h"
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
  EXPECT_EQ(rounded_quarters(1.93), 2);
  EXPECT_EQ(rounded_quarters(0.01), 0.25);
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

TEST(Fit, OnlyWhatIsAskedForIsMeasured) {
  const Result<target::MachineRow> row =
      fit_host({.rates = {"fma_per_cycle"}, .seconds_per_rate = 0.02});
  ASSERT_TRUE(row.ok()) << row.error().message;
  EXPECT_NE(row->sources.at("fma_per_cycle").find("machine fit"), std::string::npos);
  EXPECT_EQ(row->target.rates.memory_bytes_per_cycle, target::host().rates.memory_bytes_per_cycle);
}

// Threads on every processor that stream through more memory than caches hold.
class MemoryHog {
 public:
  MemoryHog() {
    const std::size_t bytes = std::clamp<std::size_t>(
        static_cast<std::size_t>(target::host().l3_bytes), 64 << 20, 256 << 20);
    for (int i = 0; i < target::usable_cpus(); ++i)
      threads_.emplace_back([this, bytes] {
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
  const FitOptions options{.rates = {"all_memory_bytes_per_cycle"}, .seconds_per_rate = 0.3};
  const auto bytes = [&] {
    const Result<target::MachineRow> row = fit_host(options);
    EXPECT_TRUE(row.ok());
    return row.ok() ? row->target.rates.all_memory_bytes_per_cycle : 0;
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
  EXPECT_GE(count(fma, "fma.rn.f32"), kSums) << fma;
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

}  // namespace
}  // namespace tessera::app
