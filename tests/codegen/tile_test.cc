// Tile registers: instructions, where they are configured and released, and what is refused.
#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "tessera/lang/interp/interp.h"
#include "tessera/lang/ir/text.h"

namespace tessera::codegen {
namespace {

ir::Func parse(const std::string& body, const char* types = "bf16") {
  const auto func =
      ir::parse_func(fmt::format("func f(A: {0}[1024], B: {0}[1024]) -> (C: {1}[1024]) {{\n{2}}}\n",
                                 types, std::string(types) == "bf16" ? "f32" : "i32", body));
  EXPECT_TRUE(func.ok()) << func.error().message;
  return func.ok() ? *func : ir::Func{};
}

std::string unit(int rows, const std::string& at = "0") {
  return fmt::format(
      "alloc S: f32[256] stack {{\neval tile_zero(0, {0}, 16)\n"
      "for k in 2 {{\neval tile_load(4, A[k * 32], 64, {0}, 32)\n"
      "eval tile_load(5, B[k * 512], 32, 16, 32)\neval tile_dot(0, 4, 5)\n}}\n"
      "eval tile_store(0, S[0], 16, {0}, 16)\n"
      "for i in {0} {{\nC[ramp({1} + i * 16, 1, 16)] = S[ramp(i * 16, 1, 16)]\n}}\n}}\n",
      rows, at);
}

std::string assembly(const ir::Func& func, const char* machine = "sapphirerapids") {
  const auto text = emit_asm(func, target::find_target(machine).value());
  return text.ok() ? *text : text.error().message;
}

TEST(Tiles, AreConfiguredOnceWhereTheirShapesAgree) {
  const std::string once = assembly(parse("parallel p in 4 {\n" + unit(16, "p * 256") + "}\n"));
  EXPECT_EQ(count(once, "ldtilecfg"), 1) << once;
  EXPECT_EQ(count(once, "tdpbf16ps"), 1);
  EXPECT_GE(count(once, "tilerelease"), 1);
  const std::string twice = assembly(parse("for p in 2 {\n" + unit(16) + unit(5, "256") + "}\n"));
  EXPECT_EQ(count(twice, "ldtilecfg"), 2) << twice;
}

TEST(Tiles, ResultsAreRoundedByOneInstruction) {
  const auto func = ir::parse_func(
      "func f(A: bf16[512], B: bf16[512]) -> (C: bf16[256]) {\nalloc S: f32[256] stack {\n"
      "eval tile_zero(0, 16, 16)\neval tile_load(4, A[0], 32, 16, 32)\n"
      "eval tile_load(5, B[0], 32, 16, 32)\neval tile_dot(0, 4, 5)\n"
      "eval tile_store(0, S[0], 16, 16, 16)\n"
      "for i in 8 {\nC[ramp(i * 32, 1, 32)] = cast<bf16>(S[ramp(i * 32, 1, 32)])\n}\n}\n}\n");
  ASSERT_TRUE(func.ok()) << func.error().message;
  EXPECT_EQ(count(assembly(*func), "vcvtne2ps2bf16"), 1);
}

TEST(Bytes, AreRoundedByTheInstructionThatConverts) {
  const auto body = [](const char* value) {
    return fmt::format(
        "func f(A: f32[32]) -> (C: u8[32], D: f32[32]) {{\nC[ramp(0, 1, 32)] = {0}\n"
        "D[ramp(0, 1, 32)] = cast<f32>({0}) - broadcast(7.0, 32)\n}}\n",
        value);
  };
  const auto func = ir::parse_func(
      body("cast<u8>(round(A[ramp(0, 1, 32)] * broadcast(2.5, 32)) + broadcast(7.0, 32))"));
  ASSERT_TRUE(func.ok()) << func.error().message;
  const std::string text = assembly(*func);
  EXPECT_EQ(count(text, "vcvtps2dq"), 2) << text;
  EXPECT_EQ(count(text, "vcvttps2dq"), 0) << text;
  EXPECT_EQ(count(text, "vcvtdq2ps"), 0) << "what comes back was a whole number already";
  const auto fraction = ir::parse_func(body("cast<u8>(A[ramp(0, 1, 32)] + broadcast(7.5, 32))"));
  ASSERT_TRUE(fraction.ok()) << fraction.error().message;
  EXPECT_EQ(count(assembly(*fraction), "vcvttps2dq"), 2) << "cut off, not rounded";
}

TEST(Tiles, SignsChooseTheInstruction) {
  const auto body = [](const char* types) {
    return parse(
        "eval tile_zero(0, 16, 16)\neval tile_load(4, A[0], 64, 16, 64)\n"
        "eval tile_load(5, B[0], 64, 16, 64)\neval tile_dot(0, 4, 5)\n"
        "eval tile_store(0, C[0], 16, 16, 16)\n",
        types);
  };
  EXPECT_EQ(count(assembly(body("i8")), "tdpbssd"), 1);
  EXPECT_EQ(count(assembly(body("u8")), "tdpbuud"), 1);
}

TEST(Tiles, WhatCannotBeEmittedIsRefused) {
  EXPECT_NE(
      assembly(parse(unit(16)), "icelake-server").find("icelake-server has no tile registers"),
      std::string::npos);
  const std::string changed =
      "eval tile_zero(0, 16, 16)\neval tile_zero(0, 8, 16)\neval tile_store(0, C[0], 16, 8, 16)\n";
  EXPECT_NE(assembly(parse(changed)).find("tiles of several shapes"), std::string::npos);
}

TEST(Tiles, TheInterpreterSeesWhatDoesNotFit) {
  const auto run = [](const std::string& body) {
    std::vector<HostTensor> params = {HostTensor(DType::kBF16, {1024}),
                                      HostTensor(DType::kBF16, {1024}),
                                      HostTensor(DType::kF32, {1024})};
    const auto ran = interp::run(parse(body), params);
    return ran.ok() ? std::string() : ran.error().message;
  };
  EXPECT_EQ(run(unit(16)), "");
  EXPECT_NE(run("eval tile_load(4, A[600], 64, 16, 32)\n").find("ends behind A"),
            std::string::npos);
  EXPECT_NE(run("eval tile_dot(0, 4, 5)\n").find("do not fit together"), std::string::npos);
  EXPECT_NE(run("eval tile_zero(0, 4, 4)\neval tile_store(0, C[0], 16, 8, 4)\n")
                .find("another shape than it has"),
            std::string::npos);
  EXPECT_NE(run("alloc S: bf16[64] stack {\neval tile_load(4, S[0], 32, 2, 32)\n}\n")
                .find("undefined element"),
            std::string::npos);
}

}  // namespace
}  // namespace tessera::codegen
