#include "tessera/machine/target/machine_row.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/support/files.h"
#include "tessera/support/temporary_folder.h"

namespace tessera::target {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  if (at != std::string::npos) text.replace(at, from.size(), to);
  return text;
}

std::string refusal(const std::string& text) {
  const Result<MachineRow> row = machine_row_from_json(text, "here");
  if (row.ok()) return "accepted";
  EXPECT_TRUE(row.error().message.starts_with("machine row here: ")) << row.error().message;
  return row.error().message;
}

// A row that differs from the shipped one in every rate.
MachineRow made_up(const char* machine) {
  MachineRow row = shipped_row(find_target(machine).value());
  double value = 1.5;
  for (const RateField& field : rate_fields()) {
    if (has_rate(row.target, field)) row.target.rates.*field.value = value++;
  }
  return row;
}

TEST(Rates, EveryMachineOfTheTableHasWhatEstimatesDivideBy) {
  for (const std::string& name : target_names()) {
    const Target t = find_target(name).value();
    EXPECT_GT(t.rates.fma_per_cycle, 0) << name;
    EXPECT_TRUE(t.is_gpu() || t.rates.fma_latency_cycles > 0) << name;
    EXPECT_TRUE(t.is_gpu() || t.rates.loads_per_cycle > 0) << name;
    EXPECT_GT(flops_per_byte(t), 0) << name;
    for (const RateField& field : rate_fields()) {
      const bool known = t.rates.*field.value > 0;
      EXPECT_TRUE(!known || !rate_source(t, field).empty()) << name << " " << field.name;
      EXPECT_TRUE(!known || has_rate(t, field)) << name << " " << field.name;
    }
  }
}

TEST(Rates, TheGenerationDecidesAndNewerOnesTakeTheLatest) {
  EXPECT_EQ(find_target("v100")->rates.mma_per_cycle, find_target("t4")->rates.mma_per_cycle);
  EXPECT_GT(find_target("a100")->rates.mma_per_cycle, find_target("t4")->rates.mma_per_cycle);
  EXPECT_GT(find_target("h200")->rates.mma_per_cycle, find_target("a100")->rates.mma_per_cycle);
}

// A number stands for the machines that it was measured on or that its paper describes, and an
// unknown one is absent.
TEST(Rates, WhatWasMeasuredOnOneGpuIsNotGivenToOthers) {
  for (const std::string& name : target_names()) {
    const Target t = find_target(name).value();
    for (const RateField& field : rate_fields()) {
      const std::string_view source = rate_source(t, field);
      EXPECT_EQ(source.empty(), t.rates.*field.value == 0) << name << " " << field.name;
      const bool on_hopper = source.find("machine fit --target cuda on an H200") != source.npos;
      EXPECT_TRUE(!on_hopper || t.gpu.capability >= 90) << name << " " << field.name;
    }
  }
  EXPECT_EQ(find_target("a100")->rates.l2_bytes_per_cycle, 0);
  EXPECT_EQ(find_target("opencl-1.2")->rates.barrier_cycles, 0);
  EXPECT_EQ(find_target("h200")->rates.shared_bytes_per_cycle, 120);
  EXPECT_EQ(find_target("h200")->rates.fma_per_cycle, 128);
}

TEST(MachineRow, ReadsBackWhatItWrote) {
  for (const char* name : {"neoverse-v1", "x86-64-v3", "h200", "opencl-1.2"}) {
    const MachineRow row = made_up(name);
    const std::string text = to_json(row);
    const Result<MachineRow> read = machine_row_from_json(text, "here");
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(to_text(read->target), to_text(row.target));
    EXPECT_EQ(to_text(read->target.rates), to_text(row.target.rates));
    EXPECT_EQ(read->sources, row.sources);
    EXPECT_EQ(to_json(*read), text);
  }
}

TEST(MachineRow, RefusesWhatIsNoRowAndSaysWhy) {
  const std::string row = to_json(made_up("h200"));
  EXPECT_NE(refusal("").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal("[1]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(refusal(std::string(2 << 20, ' ')).find("larger than"), std::string::npos);
  EXPECT_NE(refusal(replaced(row, "row 1", "row 9")).find("\"format\""), std::string::npos);
  EXPECT_NE(refusal(replaced(row, "\"machine\"", "\"maschine\"")).find("no text \"machine\""),
            std::string::npos);
  EXPECT_NE(refusal(replaced(row, "\"rates\"", "\"speeds\"")).find("no object \"rates\""),
            std::string::npos);
  EXPECT_NE(refusal(replaced(row, "mma_per_cycle", "mmma_per_cycle")).find("no rate"),
            std::string::npos);
  const std::string more = replaced(row, "\"rates\": {", "\"rates\": {\"clock_mh\": 1,");
  EXPECT_NE(refusal(more).find("unknown rate \"clock_mh\""), std::string::npos) << refusal(more);
  EXPECT_NE(refusal(more).find("clock_mhz"), std::string::npos) << refusal(more);
  for (const char* wrong : {"-1.5", "1e300", "0.0", "\"fast\"", "null"}) {
    const std::string text = refusal(replaced(row, "1.5", wrong));
    EXPECT_NE(text.find("\"clock_mhz\""), std::string::npos) << text;
  }
}

TEST(MachineRow, RefusesRowsWithoutTheRatesThatEstimatesDivideBy) {
  for (const char* name : {"x86-64-v3", "neoverse-v1", "h200", "opencl-1.2"}) {
    const Target t = find_target(name).value();
    for (const RateField& field : rate_fields()) {
      if (!has_rate(t, field)) continue;
      const std::string key = fmt::format("\"{}\"", field.name);
      MachineRow row = made_up(name);
      row.target.rates.*field.value = 0;
      const std::string zero = refusal(to_json(row));
      const bool known = t.rates.*field.value > 0;
      EXPECT_EQ(zero.find(key + " = 0 is out of range") != zero.npos, known) << zero;
      EXPECT_EQ(zero == "accepted", !known) << zero;
      const std::string absent = refusal(replaced(to_json(row), key, "\"other\""));
      EXPECT_NE(absent.find("no rate " + key), absent.npos) << absent;
    }
  }
}

TEST(MachineRow, RefusesMachinesThatNoCodeCanBeMadeFor) {
  const std::string gpu = to_json(made_up("h200")), cpu = to_json(made_up("x86-64-v3"));
  EXPECT_NE(refusal(replaced(gpu, "warp=32", "warp=64")).find("warp=64"), std::string::npos);
  EXPECT_NE(refusal(replaced(gpu, "block=1024", "block=0")).find("limits"), std::string::npos);
  EXPECT_NE(refusal(replaced(gpu, "cores=132", "cores=9999999")).find("cores"), std::string::npos);
  EXPECT_NE(refusal(replaced(gpu, "nvptx64-nvidia-cuda", "mips-x")).find("architecture"),
            std::string::npos);
  EXPECT_NE(refusal(replaced(cpu, "16x32", "16x13")).find("registers of 13"), std::string::npos);
  EXPECT_NE(refusal(replaced(cpu, "line=64", "line=65")).find("line=65"), std::string::npos);
  EXPECT_NE(refusal(replaced(cpu, "l1=32768", "l1=0")).find("caches"), std::string::npos);
  EXPECT_NE(refusal(replaced(cpu, "line=64", "line=64 threads=3")).find("threads="),
            std::string::npos);
  EXPECT_NE(refusal(replaced(cpu, "\"x86-64-v3 triple", "\"\\u0007 triple")).find("name"),
            std::string::npos);
}

class UserRows : public testing::Test {
 protected:
  void SetUp() override {
    if (const char* before = std::getenv("XDG_CONFIG_HOME")) before_ = before;
    setenv("XDG_CONFIG_HOME", folder_.path().c_str(), 1);
    std::filesystem::create_directories(user_rows_folder());
  }
  void TearDown() override {
    if (before_.empty()) {
      unsetenv("XDG_CONFIG_HOME");
    } else {
      setenv("XDG_CONFIG_HOME", before_.c_str(), 1);
    }
  }

  TemporaryFolder folder_ = TemporaryFolder::make("rows").value();
  std::string before_;
};

TEST_F(UserRows, AreFoundByName) {
  EXPECT_TRUE(user_row_names().empty());
  EXPECT_FALSE(names_row("mine"));
  ASSERT_TRUE(write_file(user_row_path("mine"), {to_json(made_up("h200"))}).ok());
  EXPECT_EQ(user_row_names(), std::vector<std::string>{"mine"});
  EXPECT_TRUE(names_row("mine"));
  EXPECT_EQ(find_row("mine")->target.rates.clock_mhz, 1.5);
  for (const char* outside : {"../mine", "a/b", "", ".hidden"})
    EXPECT_EQ(user_row_path(outside), "") << outside;
}

TEST_F(UserRows, ServeTheMachineThatTheyWereMeasuredOn) {
  MachineRow row = shipped_row(host());
  row.target.rates.memory_bytes_per_cycle = 77;
  ASSERT_TRUE(write_file(user_row_path("host"), {to_json(row)}).ok());
  const Result<Target> used = with_user_rates(host(), "host");
  ASSERT_TRUE(used.ok()) << used.error().message;
  EXPECT_EQ(used->rates.memory_bytes_per_cycle, 77);
  Target other = host();
  other.l2_bytes *= 2;
  EXPECT_NE(with_user_rates(other, "host")->rates.memory_bytes_per_cycle, 77);
  ASSERT_TRUE(write_file(user_row_path("host"), {"broken"}).ok());
  EXPECT_FALSE(with_user_rates(host(), "host").ok());
}

}  // namespace
}  // namespace tessera::target
