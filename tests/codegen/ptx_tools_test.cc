#include "tessera/backend/codegen/ptx_tools.h"

#include <tuple>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/backend/codegen/codegen.h"
#include "tests/codegen/device_program.h"

namespace tessera::codegen {
namespace {

std::string ptx_of(const ir::DeviceProgram& program, const target::Target& target) {
  const Result<Binary> binary = compile(program, target);
  EXPECT_TRUE(binary.ok()) << binary.error().message;
  return binary.ok() ? std::string(binary->bytes.begin(), binary->bytes.end()) : "";
}

// B = f(A), 32 threads with so many elements each.
ir::DeviceProgram elementwise(const std::string& dtype, const std::string& value) {
  return parse_program("device p(A: " + dtype + "[4, 128]) -> (B: " + dtype +
                       "[4, 128]) { launch k(A) -> (B) { grid bx in 4, by in 1, bz in 1 "
                       "block tx in 32, ty in 1, tz in 1\n" +
                       value + "} }");
}

class Assembler : public ::testing::Test {
 protected:
  void SetUp() override {
    const Result<std::string> ptxas = find_cuda_tool("ptxas");
    if (!ptxas.ok()) GTEST_SKIP() << ptxas.error().message;
  }
};

TEST_F(Assembler, TakesEveryTypeForEveryMachine) {
  std::vector<ir::DeviceProgram> programs = {tiled_matmul(256), row_sums(32)};
  const std::string mine = "A[bx, ramp(tx * 4, 1, 4)]", other = "A[bx, ramp(124 - tx * 4, 1, 4)]";
  for (const char* t : {"f16", "bf16", "f32", "f64", "i8", "i64"}) {
    programs.push_back(elementwise(
        t, fmt::format("B[bx, ramp(tx * 4, 1, 4)] = max({0} * {0} + {1}, {0})\n", mine, other)));
  }
  for (const char* fn : {"exp", "log", "tanh", "erf", "sqrt", "round"}) {
    programs.push_back(elementwise("f16", fmt::format("B[bx, tx] = {}(A[bx, tx])\n", fn)));
  }
  for (const std::string& name : target::target_names()) {
    const target::Target target = target::find_target(name).value();
    // ptxas of CUDA 13 has dropped what is older than sm_75.
    if (target.kind != target::Kind::kCuda || target.gpu.capability < 75) continue;
    for (const ir::DeviceProgram& program : programs) {
      const auto built = assemble_ptx(ptx_of(program, target), target.cpu);
      EXPECT_TRUE(built.ok()) << name << " " << program.name << ": " << built.error().message;
      if (!built.ok()) continue;
      EXPECT_EQ(std::string(built->cubin.begin() + 1, built->cubin.begin() + 4), "ELF");
      EXPECT_NE(built->facts.find("0 bytes spill stores"), std::string::npos) << built->facts;
    }
  }
}

TEST_F(Assembler, TakesProductsOfWarps) {
  for (const char* name : {"a100", "rtx4090", "h200"}) {
    const target::Target target = target::find_target(name).value();
    for (const auto& [type, acc, row] : {std::tuple{"f16", "f32", 8},
                                         {"bf16", "f32", 8},
                                         {"f32", "f32", 4},
                                         {"i8", "i32", 16},
                                         {"u8", "i32", 16}}) {
      const auto built = assemble_ptx(ptx_of(warp_products(type, acc, row), target), target.cpu);
      ASSERT_TRUE(built.ok()) << name << " " << type << ": " << built.error().message;
      EXPECT_NE(built->facts.find("0 bytes spill stores"), std::string::npos) << built->facts;
    }
  }
}

TEST_F(Assembler, TakesProductsOfWarpGroups) {
  const target::Target target = target::find_target("h200").value();
  for (const int columns : {8, 64, 256}) {
    for (const char* type : {"f16", "bf16"}) {
      const auto built = assemble_ptx(ptx_of(group_product(type, columns), target), target.cpu);
      ASSERT_TRUE(built.ok()) << columns << " " << type << ": " << built.error().message;
      EXPECT_NE(built->facts.find("0 bytes spill stores"), std::string::npos) << built->facts;
      EXPECT_EQ(built->facts.find("serialized"), std::string::npos) << built->facts;
    }
  }
}

TEST_F(Assembler, SaysWhatIsWrong) {
  const auto refused = assemble_ptx(".version 8.0\n.target sm_90\nnonsense\n", "sm_90");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kBuildFailed);
}

TEST_F(Assembler, ShowsMachineCode) {
  if (!find_cuda_tool("nvdisasm").ok()) GTEST_SKIP() << "no nvdisasm";
  const target::Target h200 = target::find_target("h200").value();
  const auto sass = show_sass(ptx_of(tiled_matmul(256), h200), h200.cpu);
  ASSERT_TRUE(sass.ok()) << sass.error().message;
  EXPECT_NE(sass->find("FFMA"), std::string::npos);
  EXPECT_NE(sass->find("LDS.128"), std::string::npos);
  EXPECT_NE(sass->find("registers"), std::string::npos);
}

TEST(FindCudaTool, NamesThePlaces) {
  const auto none = find_cuda_tool("no-such-tool-of-cuda");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(none.error().message.find("$CUDA_HOME/bin"), std::string::npos);
}

}  // namespace
}  // namespace tessera::codegen
