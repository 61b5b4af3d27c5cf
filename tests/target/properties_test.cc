#include "tessera/machine/target/properties.h"

#include <gtest/gtest.h>

namespace tessera::target {
namespace {

double value(const char* machine, Property property) {
  return value_of(property, find_target(machine).value());
}

// What used to be columns named after architectures and kinds.
TEST(Properties, SayHowAMachineComputesNotWhichItIs) {
  for (const std::string& name : target_names()) {
    const Target t = find_target(name).value();
    const double cpu =
        value_of(Property::kMemoryOperands, t) + value_of(Property::kLaneOperands, t);
    const double device =
        value_of(Property::kAssembledAhead, t) + value_of(Property::kDriverCompiles, t);
    EXPECT_EQ(cpu, t.is_gpu() ? 0 : 1) << name;
    EXPECT_EQ(device, t.is_gpu() ? 1 : 0) << name;
    EXPECT_EQ(value_of(Property::kLaunches, t), device) << name;
  }
  EXPECT_EQ(value("skylake-avx512", Property::kMemoryOperands), 1);
  EXPECT_EQ(value("neoverse-v1", Property::kLaneOperands), 1);
  EXPECT_EQ(value("h200", Property::kAssembledAhead), 1);
  EXPECT_EQ(value("opencl-1.2", Property::kDriverCompiles), 1);
}

TEST(Properties, LimitsOfGpusAreNoneOfProcessors) {
  EXPECT_EQ(value("h200", Property::kWarp), 32);
  EXPECT_EQ(value("znver4", Property::kWarp), 0);
  EXPECT_EQ(value("znver4", Property::kBlockThreads), 0);
  EXPECT_EQ(value("znver4", Property::kVectorBytes), 64);
  EXPECT_EQ(value("h200", Property::kBandwidthGbS), 4800);
}

}  // namespace
}  // namespace tessera::target
