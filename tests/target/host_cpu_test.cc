#include "tessera/machine/target/host_cpu.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tessera/machine/target/cpus.h"
#include "tessera/machine/target/features.h"

namespace tessera::target {
namespace {

TEST(HostCpu, ReportsKnownFeaturesOnly) {
  const HostCpu cpu = detect_host_cpu(allowed_cpus().front());
  const auto known = known_features(cpu.arch);
  for (const std::string_view name : cpu.features) {
    EXPECT_NE(std::ranges::find(known, name), known.end()) << name;
  }
  const std::string_view baseline = cpu.arch == Arch::kAArch64 ? "neon" : "sse3";
  EXPECT_NE(std::ranges::find(cpu.features, baseline), cpu.features.end());
}

TEST(Aarch64CpuName, FromMidr) {
  EXPECT_EQ(aarch64_cpu_name(0x411fd401), "neoverse-v1");
  EXPECT_EQ(aarch64_cpu_name(0x413fd0c1), "neoverse-n1");
  EXPECT_EQ(aarch64_cpu_name(0x410fd083), "cortex-a72");
  EXPECT_EQ(aarch64_cpu_name(0x611f0231), "apple-m1");
  EXPECT_EQ(aarch64_cpu_name(0), "generic");
}

TEST(X86CpuName, FromFamilyAndModel) {
  const std::vector<std::string_view> none;
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0x8f}, none), "sapphirerapids");
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0x6a}, none), "icelake-server");
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0x55}, none), "skylake-avx512");
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0x55}, {"avx512vnni"}), "cascadelake");
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0x55}, {"avx512vnni", "avx512bf16"}), "cooperlake");
  EXPECT_EQ(x86_cpu_name({"AuthenticAMD", 0x17, 0x31}, none), "znver2");
  EXPECT_EQ(x86_cpu_name({"AuthenticAMD", 0x19, 0x01}, none), "znver3");
  EXPECT_EQ(x86_cpu_name({"AuthenticAMD", 0x19, 0x11}, none), "znver4");
  EXPECT_EQ(x86_cpu_name({"AuthenticAMD", 0x19, 0x50}, none), "znver3");
}

TEST(X86CpuName, UnknownModelsGetTheLevelOfTheirFeatures) {
  std::vector<std::string_view> features;
  EXPECT_EQ(x86_cpu_name({"Nobody", 6, 1}, features), "x86-64");
  features = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
  EXPECT_EQ(x86_cpu_name({"Nobody", 6, 1}, features), "x86-64-v2");
  features.insert(features.end(), {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe"});
  EXPECT_EQ(x86_cpu_name({"GenuineIntel", 6, 0xff}, features), "x86-64-v3");
  features.insert(features.end(), {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"});
  EXPECT_EQ(x86_cpu_name({"AuthenticAMD", 0x99, 1}, features), "x86-64-v4");
}

}  // namespace
}  // namespace tessera::target
