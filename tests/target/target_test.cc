#include "tessera/machine/target/target.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/machine/target/features.h"
#include "tessera/machine/target/machine_table.h"
#include "tessera/machine/target/match.h"

namespace tessera::target {
namespace {

TEST(Host, HasPlausibleFacts) {
  const Target& t = host();
  EXPECT_EQ(t.name, "host");
#if defined(__aarch64__)
  EXPECT_EQ(t.arch, Arch::kAArch64);
  EXPECT_EQ(t.vector_bytes, 16);
#else
  EXPECT_EQ(t.arch, Arch::kX86_64);
#endif
  EXPECT_FALSE(t.cpu.empty());
  EXPECT_GE(t.cores, 1);
  EXPECT_GE(t.l1_bytes, 4 << 10);
  EXPECT_GE(t.l2_bytes, t.l1_bytes);
  EXPECT_GE(t.line_bytes, 16);
}

TEST(Host, NamesEveryKnownFeatureOnceWithItsSign) {
  const Target& t = host();
  const std::string on = feature_string(t.arch, known_features(t.arch));
  EXPECT_EQ(std::ranges::count(t.features, ','), std::ranges::count(on, ','));
  for (const std::string_view name : known_features(t.arch)) {
    const std::string padded = "," + t.features + ",";
    const bool plus = padded.find(fmt::format(",+{},", name)) != std::string::npos;
    const bool minus = padded.find(fmt::format(",-{},", name)) != std::string::npos;
    EXPECT_NE(plus, minus) << name;
  }
}

TEST(Host, RunsItsOwnCodeAndNotThatOfRicherOrForeignMachines) {
  EXPECT_TRUE(runs_on_host(host()));
  Target richer = host();
  richer.features += ",+a-feature-of-the-future";
  EXPECT_FALSE(runs_on_host(richer));
  Target foreign = host();
  foreign.arch = host().arch == Arch::kAArch64 ? Arch::kX86_64 : Arch::kAArch64;
  foreign.features.clear();
  EXPECT_FALSE(runs_on_host(foreign));
  Target poorer = host();
  poorer.features.clear();
  EXPECT_TRUE(runs_on_host(poorer));
}

TEST(FindTarget, FindsEveryName) {
  const std::vector<std::string> names = target_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
  for (const std::string& name : names) {
    const Result<Target> t = find_target(name);
    ASSERT_TRUE(t.ok()) << name;
    EXPECT_GE(t->cores, 1);
    EXPECT_GT(t->l1_bytes, 0);
    EXPECT_GE(t->l2_bytes, t->l1_bytes);
  }
}

TEST(FindTarget, AliasGivesTheMachine) {
  EXPECT_EQ(to_text(*find_target("graviton3")), to_text(*find_target("neoverse-v1")));
}

TEST(FindTarget, ErrorListsTheNamesAndTheNearest) {
  const Result<Target> t = find_target("neoverse-v3");
  ASSERT_FALSE(t.ok());
  EXPECT_EQ(t.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(t.error().message.find("no target 'neoverse-v3'; did you mean 'neoverse-v"),
            std::string::npos)
      << t.error().message;
  for (const std::string& name : target_names()) {
    EXPECT_NE(t.error().message.find(name), std::string::npos) << name;
  }
}

TEST(FindTarget, ErrorCompletesTheBeginningOfAName) {
  EXPECT_NE(find_target("skylake").error().message.find("did you mean 'skylake-avx512'"),
            std::string::npos);
}

TEST(FindTarget, ErrorSaysWhichRowStandsForAnInstructionSet) {
  for (const auto& [name, row] : {std::pair("arm64", "armv8-a"), std::pair("avx512", "x86-64-v4"),
                                  std::pair("sm_90", "h100"), std::pair("sm_80", "a100")}) {
    const auto refused = find_target(name);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.error().message.find(fmt::format("; did you mean '{}'?", row)),
              std::string::npos)
        << refused.error().message;
  }
}

TEST(FindTarget, RefusesEmptyAndOverlongNames) {
  EXPECT_FALSE(find_target("").ok());
  const Result<Target> t = find_target(std::string(100000, 'x'));
  ASSERT_FALSE(t.ok());
  EXPECT_LT(t.error().message.size(), 1000U);
}

TEST(MachineTable, FeaturesAreKnownOnes) {
  for (const Machine& m : machines()) {
    const auto known = known_features(m.arch);
    const std::string listed = fmt::format("{},{}", m.base, m.extra);
    std::size_t count = 0;
    for (std::size_t at = 0; at < listed.size();) {
      const std::size_t comma = std::min(listed.find(',', at), listed.size());
      const std::string name = listed.substr(at, comma - at);
      if (!name.empty()) {
        ++count;
        EXPECT_NE(std::ranges::find(known, name), known.end()) << m.name << ": " << name;
      }
      at = comma + 1;
    }
    EXPECT_EQ(present_features(make_target(m).features).size(), count) << m.name;
  }
}

TEST(MachineTable, DerivesTheRegisterFile) {
  EXPECT_EQ(find_target("skylake-avx512")->vector_bytes, 64);
  EXPECT_EQ(find_target("skylake-avx512")->vector_registers, 32);
  EXPECT_EQ(find_target("haswell")->vector_bytes, 32);
  EXPECT_EQ(find_target("haswell")->vector_registers, 16);
  EXPECT_EQ(find_target("neoverse-v1")->vector_bytes, 16);
  EXPECT_TRUE(find_target("neoverse-v1")->has_bf16_mma);
  EXPECT_FALSE(find_target("cortex-a72")->has_f16);
  EXPECT_TRUE(find_target("sapphirerapids")->has_f16);
  EXPECT_TRUE(find_target("sapphirerapids")->has_bf16_tiles);
  EXPECT_TRUE(find_target("sapphirerapids")->has_i8_tiles);
  EXPECT_FALSE(find_target("znver4")->has_bf16_tiles);
}

TEST(MachineTable, HasServersOfTheLastYears) {
  const Target zen5 = find_target("znver5").value(), n2 = find_target("neoverse-n2").value();
  EXPECT_EQ(zen5.vector_bytes, 64);
  EXPECT_EQ(zen5.l1_bytes, 48 << 10);
  EXPECT_EQ(mismatch(find_target("znver4").value(), zen5), "");
  EXPECT_TRUE(n2.has_bf16_mma);
  // Their data sheets' 30.3 and 91.6 TFLOP/s.
  for (const auto& [name, tflops] : {std::pair("l4", 30.3), std::pair("l40s", 91.6)}) {
    const Target t = find_target(name).value();
    EXPECT_EQ(t.gpu.capability, 89) << name;
    EXPECT_NEAR(2e-6 * t.cores * t.gpu.core_lanes * t.gpu.clock_mhz, tflops, 0.5) << name;
  }
}

TEST(MachineTable, KnowsTheLimitsOfGpus) {
  for (const GpuMachine& m : gpu_machines()) {
    const Target t = make_target(m);
    EXPECT_TRUE(t.is_gpu());
    EXPECT_EQ(t.arch, Arch::kNone) << m.name;
    EXPECT_EQ(t.gpu.block_threads % t.gpu.warp, 0) << m.name;
    EXPECT_LE(t.gpu.block_threads, t.gpu.core_threads) << m.name;
    EXPECT_LE(t.gpu.block_shared_bytes, t.gpu.core_shared_bytes) << m.name;
    EXPECT_FALSE(runs_on_host(t)) << m.name;
    EXPECT_EQ(t.gpu.capability, m.generation.capability) << m.name;
  }
  const Target h200 = find_target("h200").value();
  EXPECT_EQ(h200.kind, Kind::kCuda);
  EXPECT_EQ(h200.gpu.capability, 90);
  EXPECT_EQ(h200.cores, 132);
  EXPECT_EQ(h200.gpu.block_shared_bytes, 227 << 10);
  // The datasheet's 67 TFLOP/s.
  EXPECT_NEAR(2e-6 * h200.cores * h200.gpu.core_lanes * h200.gpu.clock_mhz, 67, 0.5);
  EXPECT_EQ(find_target("opencl-1.2")->kind, Kind::kOpenCl);
}

TEST(MachineTable, TakesTheNewestGenerationThatIsNotNewer) {
  EXPECT_EQ(gpu_generation(75).cpu, "sm_75");
  EXPECT_EQ(gpu_generation(87).cpu, "sm_86");
  EXPECT_EQ(gpu_generation(120).capability, 90);
  EXPECT_EQ(gpu_generation(60).capability, 70);
}

TEST(CodeTarget, ThreadsAreApartFromCores) {
  Target machine = host();
  machine.cores = 8;
  EXPECT_EQ(machine.code_threads(), 8);
  const Target two = code_target(machine, 2);
  EXPECT_EQ(two.cores, 8);
  EXPECT_EQ(two.code_threads(), 2);
  EXPECT_EQ(target_from_text(to_text(two))->code_threads(), 2);
  // All cores is what a machine means without a number.
  EXPECT_EQ(to_text(code_target(two, 8)), to_text(machine));
}

TEST(MachineTable, SwitchesSveOff) {
  for (const Machine& m : machines()) {
    if (m.arch != Arch::kAArch64) continue;
    EXPECT_NE(make_target(m).features.find("-sve,"), std::string::npos) << m.name;
  }
}

TEST(ToText, TellsTargetsApart) {
  std::set<std::string> texts;
  for (const Machine& m : machines()) {
    const std::string text = to_text(make_target(m));
    EXPECT_EQ(text.find('\n'), std::string::npos);
    EXPECT_TRUE(texts.insert(text).second) << text;
  }
}

TEST(Mismatch, CoresCachesAndNamesDoNotCount) {
  Target other = host();
  other.name = "elsewhere";
  other.cpu = "generic";
  other.cores += 3;
  other.l2_bytes *= 2;
  EXPECT_EQ(mismatch(host(), other), "");
  EXPECT_FALSE(same_machine(host(), other));
  other = host();
  other.name = "elsewhere";
  other.cores += 3;
  other.threads = 2;
  EXPECT_TRUE(same_machine(host(), other));
}

TEST(Mismatch, AGroupOfMachinesHasNearlyTheSameCaches) {
  Target one = host();
  one.l2_bytes = 1 << 20;
  one.l3_bytes = 32 << 20;
  Target other = one;
  other.cores += 8;
  other.l3_bytes += 1;
  EXPECT_FALSE(same_machine(one, other));
  EXPECT_TRUE(same_group(one, other));
  EXPECT_TRUE(same_group(other, one));
  other.l3_bytes = 28 << 20;
  EXPECT_FALSE(same_group(one, other));
  other = one;
  other.l2_bytes = 0;
  EXPECT_FALSE(same_group(one, other));
  other = one;
  other.cpu = "another";
  EXPECT_FALSE(same_group(one, other));
}

TEST(Mismatch, CodeForANewerGpuDoesNotServeAnOlderOne) {
  const Target h200 = *find_target("h200"), a100 = *find_target("a100");
  EXPECT_EQ(mismatch(h200, a100), "made for sm_90a, wanted for the older sm_80");
  EXPECT_EQ(mismatch(a100, h200), "");
  EXPECT_NE(mismatch(a100, host()), "");
}

TEST(Mismatch, SaysWhatDiffers) {
  const Target avx512 = *find_target("skylake-avx512"), arm = *find_target("neoverse-v1");
  EXPECT_EQ(mismatch(arm, avx512),
            "made for aarch64-unknown-linux-gnu, wanted for x86_64-unknown-linux-gnu");
  Target narrow = avx512;
  narrow.vector_bytes = 32;
  narrow.vector_registers = 16;
  EXPECT_EQ(mismatch(narrow, avx512), "made for 16 registers of 32 bytes, wanted for 32 of 64");
  Target dots = avx512;
  dots.has_bf16_dot = !dots.has_bf16_dot;
  EXPECT_NE(mismatch(dots, avx512).find("bf16 dot products"), std::string::npos);
  EXPECT_NE(mismatch(avx512, dots), mismatch(dots, avx512));
  const Target tiles = *find_target("sapphirerapids");
  Target plain = tiles;
  plain.has_bf16_tiles = plain.has_i8_tiles = false;
  EXPECT_NE(mismatch(tiles, plain).find("made with bf16 matrix tiles"), std::string::npos);
  EXPECT_EQ(mismatch(plain, tiles), "");
}

TEST(MachineKind, IsTheSameWhereNothingMismatches) {
  Target other = host();
  other.name = "elsewhere";
  other.cores += 3;
  other.l2_bytes *= 2;
  EXPECT_EQ(machine_kind(other), machine_kind(host()));
  other.has_i8_dot = !other.has_i8_dot;
  EXPECT_NE(machine_kind(other), machine_kind(host()));
  EXPECT_EQ(machine_kind(*find_target("haswell")), "x86_64:16x32:fma");
  EXPECT_EQ(machine_kind(*find_target("h200")), "nvptx64:255x16:fma+f16:sm_90a");
  EXPECT_EQ(machine_kind(*find_target("sapphirerapids")), "x86_64:32x64:fma+f16+bf16_dot+i8_dot");
  for (const std::string& name : target_names()) {
    const Target t = *find_target(name);
    EXPECT_EQ(machine_kind(t).find(' '), std::string::npos) << "one word";
    EXPECT_EQ(machine_kind(*target_from_text(to_text(t))), machine_kind(t)) << name;
  }
}

TEST(FromText, ReadsBackEveryMachine) {
  std::vector<Target> targets = {host()};
  for (const Machine& m : machines()) targets.push_back(make_target(m));
  for (const GpuMachine& m : gpu_machines()) targets.push_back(make_target(m));
  for (const Target& t : targets) {
    const Result<Target> read = target_from_text(to_text(t));
    ASSERT_TRUE(read.ok()) << read.error().message;
    EXPECT_EQ(to_text(*read), to_text(t));
    EXPECT_EQ(read->arch, t.arch);
    EXPECT_EQ(read->kind, t.kind);
    EXPECT_EQ(read->gpu.capability, t.gpu.capability);
    EXPECT_EQ(read->gpu.block_shared_bytes, t.gpu.block_shared_bytes);
    EXPECT_EQ(read->has_fma, t.has_fma);
    EXPECT_EQ(read->has_f16, t.has_f16);
    EXPECT_EQ(read->has_bf16_dot, t.has_bf16_dot);
    EXPECT_EQ(read->has_bf16_mma, t.has_bf16_mma);
    EXPECT_EQ(read->has_i8_dot, t.has_i8_dot);
    EXPECT_EQ(read->has_i8_mma, t.has_i8_mma);
  }
}

TEST(FromText, NamesWhatIsWrong) {
  const auto message = [](const std::string& line) {
    const Result<Target> t = target_from_text(line);
    return t.ok() ? std::string("no error") : t.error().message;
  };
  EXPECT_EQ(message(""), "target: no triple=");
  EXPECT_EQ(message("cuda -arch=sm_70"), "target: no triple=");
  EXPECT_EQ(message("m triple=riscv64-linux"), "target: architecture of 'riscv64-linux'");
  const std::string start = "m triple=x86_64-linux cpu=c features= ";
  EXPECT_EQ(message(start), "target: no vector=");
  EXPECT_EQ(message(start + "vector=16"), "target: vector='' is not a size");
  EXPECT_EQ(message(start + "vector=16x0"), "target: vector='0' is not a size");
  EXPECT_EQ(message(start + "vector=16x32 cores=many"), "target: cores='many' is not a size");
  EXPECT_EQ(message(start + "vector=16x32 cores=99999999999"),
            "target: cores='99999999999' is not a size");
  const std::string whole = start + "vector=16x32 cores=4 l1=1 l2=1 l3=0 line=64 ";
  EXPECT_EQ(message(whole + "threads=0"), "target: threads='0' is not a size");
  const std::string gpu = to_text(*find_target("h200"));
  EXPECT_EQ(message(gpu.substr(0, gpu.find(" gb_s"))), "target: no gb_s=");
}

}  // namespace
}  // namespace tessera::target
