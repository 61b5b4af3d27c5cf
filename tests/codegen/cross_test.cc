#include <gtest/gtest.h>

#include "kernel_runner.h"
#include "micro_kernel.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

std::string asm_of(const ir::Func& func, const target::Target& target) {
  const auto text = emit_asm(func, target, {.verify_llvm = true});
  return text.ok() ? *text : "error: " + text.error().message;
}

TEST(CrossTest, Avx2MicroKernelStaysInRegisters) {
  const std::string text = asm_of(micro_kernel(6, 16, 8, 64), avx2_target());
  EXPECT_EQ(count(text, "vfmadd"), 12) << text;
  EXPECT_GE(count(text, "vbroadcastss"), 4) << text;
  EXPECT_EQ(count(text, "(%rsp)"), 0) << text;
}

TEST(CrossTest, Avx512UsesItsWideRegisters) {
  const std::string text = asm_of(micro_kernel(8, 48, 16, 64), avx512_target());
  EXPECT_GE(count(text, "zmm"), 24);
  EXPECT_EQ(count(text, "vfmadd"), 24) << text;
  EXPECT_EQ(count(text, "(%rsp)"), 0) << text;
}

TEST(CrossTest, AArch64FromAnyHost) {
  EXPECT_GE(count(asm_of(micro_kernel(4, 8, 4, 64), aarch64_target()), "fmla"), 8);
}

TEST(CrossTest, ReluOnX86IsOneInstruction) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {16});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {16});
  const ir::Expr i = ir::Var::make("i");
  const ir::Expr value = ir::max(load_vec(a, i * 8, 8), ir::zero({DType::kF32, 8}));
  const std::string text = asm_of(elementwise({a}, {{out, value}}, i, 8), avx2_target());
  EXPECT_EQ(count(text, "vmaxps"), 1) << text;
  EXPECT_EQ(count(text, "vcmp") + count(text, "vblend"), 0) << text;
}

TEST(CrossTest, AProcessorThatLlvmDoesNotKnow) {
  target::Target future = avx512_target(), arm = aarch64_target();
  future.cpu = arm.cpu = "futurelake";
  EXPECT_EQ(count(asm_of(micro_kernel(8, 48, 16, 64), future), "vfmadd"), 24);
  EXPECT_GE(count(asm_of(micro_kernel(4, 8, 4, 64), arm), "fmla"), 8);
}

// Pointers of outer loops are opaque to LLVM, at no instruction.
TEST(CrossTest, NestedLoopsOnEveryTarget) {
  const ir::Buffer a = ir::Buffer::make("a", DType::kF32, {8, 64});
  const ir::Buffer out = ir::Buffer::make("out", DType::kF32, {8, 64});
  const ir::Expr i = ir::Var::make("i");
  const ir::Expr j = ir::Var::make("j");
  const ir::Expr columns = ir::Ramp::make(j * 4, 1, 4);
  const ir::Stmt copy = ir::Store::make(out, {i, columns}, ir::Load::make(a, {i, columns}));
  const ir::Func func{"nested",
                      {a, out},
                      1,
                      ir::For::make(i, 8, ir::LoopKind::kSerial,
                                    ir::For::make(j, 16, ir::LoopKind::kSerial, copy))};
  for (const target::Target& target : {aarch64_target(), avx2_target()}) {
    const std::string text = asm_of(func, target);
    EXPECT_EQ(text.find("error"), std::string::npos) << text;
    EXPECT_LE(count(text, "\n\t"), 45) << text;
    EXPECT_EQ(count(emit_llvm(func, target).value(), "asm \"\""), 2);
  }
}

TEST(CrossTest, ObjectsOfSeveralFuncs) {
  ir::Func a = micro_kernel(4, 8, 4, 64);
  ir::Func b = micro_kernel(2, 8, 4, 64);
  a.name = "first";
  b.name = "second";
  for (const target::Target& target : {aarch64_target(), avx2_target()}) {
    const auto object = compile({a, b}, target);
    ASSERT_TRUE(object.ok()) << object.error().message;
    const std::string bytes(object->bytes.begin(), object->bytes.end());
    EXPECT_EQ(bytes.substr(0, 4),
              "\x7f"
              "ELF");
    EXPECT_NE(bytes.find("first"), std::string::npos);
    EXPECT_NE(bytes.find("second"), std::string::npos);
    ASSERT_EQ(object->kernels.size(), 2u);
    EXPECT_EQ(object->kernels[1].name, "second");
  }
}

TEST(CrossTest, ForeignCodeIsNotLoaded) {
  const bool on_arm = target::host().arch == target::Arch::kAArch64;
  const auto kernel = jit(micro_kernel(4, 8, 4, 64), on_arm ? avx2_target() : aarch64_target());
  ASSERT_FALSE(kernel.ok());
  EXPECT_EQ(kernel.error().code, ErrorCode::kUnsupported);
}

TEST(CrossTest, UnknownTripleIsAnError) {
  target::Target t = aarch64_target();
  t.triple = "nonsense-unknown-none";
  const auto text = emit_asm(micro_kernel(4, 8, 4, 64), t);
  ASSERT_FALSE(text.ok());
  EXPECT_EQ(text.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace tessera::codegen
