#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_runner.h"
#include "tessera/lang/ir/build.h"

namespace tessera::codegen {
namespace {

using ir::Buffer;
using ir::Expr;

// `n` floats that end where unreadable memory begins.
class GuardedFloats {
 public:
  explicit GuardedFloats(std::size_t n) : page_(static_cast<std::size_t>(sysconf(_SC_PAGESIZE))) {
    map_ = static_cast<char*>(
        mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(map_ + page_, page_, PROT_NONE);
    data = reinterpret_cast<float*>(map_ + page_) - n;
    for (std::size_t i = 0; i < n; ++i) data[i] = static_cast<float>(i + 1);
  }
  ~GuardedFloats() { munmap(map_, 2 * page_); }
  GuardedFloats(const GuardedFloats&) = delete;
  GuardedFloats& operator=(const GuardedFloats&) = delete;
  float* data;

 private:
  std::size_t page_;
  char* map_;
};

constexpr std::int64_t kSize = 16, kPadded = 24;

// out[i] = i < kSize ? 2 * a[i] : -1 over kPadded elements, `lanes` at a time.
ir::Func padded_func(int lanes, bool plain_load) {
  const Buffer a = Buffer::make("a", DType::kF32, {kSize});
  const Buffer out = Buffer::make("out", DType::kF32, {kPadded});
  const Expr i = ir::Var::make("i");
  const Expr base = i * lanes;
  const Expr index = lanes == 1 ? base : ir::Ramp::make(base, 1, lanes);
  const Expr inside = ir::lt(index, ir::imm_like(index.type(), kSize));
  const Expr x = ir::Load::make(a, {index});
  const Expr value = plain_load ? x : x * 2;
  return elementwise({a}, {{out, ir::select(inside, value, ir::imm_like(x.type(), -1))}}, i, lanes);
}

TEST(SelectTest, DoesNotReadTheSideNotTaken) {
  for (const int lanes : {1, 3, 4, 8, 12}) {
    for (const bool plain_load : {false, true}) {
      GuardedFloats a(kSize);
      std::vector<float> out(kPadded);
      run(padded_func(lanes, plain_load), {a.data, out.data()});
      for (std::size_t i = 0; i < kPadded; ++i) {
        const float want =
            i < kSize ? static_cast<float>(i + 1) * (plain_load ? 1.0f : 2.0f) : -1.0f;
        EXPECT_EQ(out[i], want) << "lanes " << lanes << " index " << i;
      }
    }
  }
}

TEST(SelectTest, ScalarConditionOverVectors) {
  const Buffer a = Buffer::make("a", DType::kF32, {kSize});
  const Buffer out = Buffer::make("out", DType::kF32, {kPadded});
  const Expr i = ir::Var::make("i");
  const Expr value = ir::Select::make(ir::lt(i, ir::int_imm(kSize / 4)), load_vec(a, i * 4, 4),
                                      ir::imm_like({DType::kF32, 4}, 7));
  GuardedFloats data(kSize);
  std::vector<float> got(kPadded);
  run(elementwise({a}, {{out, value}}, i, 4), {data.data, got.data()});
  for (std::size_t k = 0; k < kPadded; ++k)
    EXPECT_EQ(got[k], k < kSize ? static_cast<float>(k + 1) : 7.0f);
}

TEST(SelectTest, NestedLazySides) {
  const Buffer a = Buffer::make("a", DType::kF32, {kSize});
  const Buffer out = Buffer::make("out", DType::kF32, {64});
  const Expr i = ir::Var::make("i");
  const Expr low = ir::lt(i, ir::int_imm(kSize));
  const Expr shifted = ir::Load::make(a, {i - 40});
  const Expr high = ir::logical_and(ir::le(ir::int_imm(40), i), ir::lt(i, ir::int_imm(40 + kSize)));
  const Expr value = ir::select(low, ir::Load::make(a, {i}),
                                ir::select(high, shifted + shifted, ir::imm(DType::kF32, 0)));
  GuardedFloats data(kSize);
  std::vector<float> got(64);
  run(elementwise({a}, {{out, value}}, i, 1), {data.data, got.data()});
  for (std::size_t k = 0; k < 64; ++k) {
    const float want = k < kSize           ? static_cast<float>(k + 1)
                       : k >= 40 && k < 56 ? 2.0f * static_cast<float>(k - 39)
                                           : 0;
    EXPECT_EQ(got[k], want) << k;
  }
}

TEST(SelectTest, WithoutLoadsThereIsNoBranch) {
  const Buffer out = Buffer::make("out", DType::kF32, {8});
  const Expr i = ir::Var::make("i");
  const Expr value =
      ir::select(ir::lt(i, ir::int_imm(3)), ir::imm(DType::kF32, 1), ir::imm(DType::kF32, 2));
  const auto text = emit_llvm(elementwise({}, {{out, value}}, i, 1), aarch64_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "select "), 1);
  EXPECT_EQ(count(*text, "br i1"), 1);  // the loop
}

// out[i] = a[i] < 0 ? slope[i] * a[i] : a[i]
ir::Func prelu_func(std::int64_t blocks, int lanes) {
  const Buffer a = Buffer::make("a", DType::kF32, {blocks * lanes});
  const Buffer slope = Buffer::make("slope", DType::kF32, {blocks * lanes});
  const Buffer out = Buffer::make("out", DType::kF32, {blocks * lanes});
  const Expr i = ir::Var::make("i");
  const auto x = [&] { return load_vec(a, i * lanes, lanes); };  // nodes of its own every time
  const Expr below = ir::lt(x(), ir::imm_like({DType::kF32, lanes}, 0));
  const Expr value = ir::select(below, load_vec(slope, i * lanes, lanes) * x(), x());
  return elementwise({a, slope}, {{out, value}}, i, lanes);
}

TEST(SelectTest, SidesThatLieInTheirBuffersAreBothMade) {
  for (const int lanes : {1, 3, 4, 8, 16}) {
    const ir::Func func = prelu_func(5, lanes);
    for (const auto& target : {aarch64_target(), avx2_target(), avx512_target()}) {
      const auto text = emit_llvm(func, target);
      ASSERT_TRUE(text.ok());
      EXPECT_EQ(count(*text, "br i1"), 1) << *text;  // the loop
    }
    expect_like_interp(
        func, {edge_values(DType::kF32, 5 * lanes, 1), edge_values(DType::kF32, 5 * lanes, 2)});
  }
}

// The range of the index reaches beyond the buffer, but what the condition reads can be read again.
TEST(SelectTest, WhatTheConditionReadsIsReadAgain) {
  constexpr std::int64_t kOdd = 13;
  const Buffer a = Buffer::make("a", DType::kF32, {kOdd});
  const Buffer out = Buffer::make("out", DType::kF32, {kOdd});
  const Expr i = ir::Var::make("i"), j = ir::Var::make("j");
  const Expr at = i * 4 + j;
  const auto x = [&] { return ir::Load::make(a, {at}); };
  const Expr zero = ir::imm(DType::kF32, 0);
  const Expr value = ir::select(ir::lt(x(), zero), x() * ir::imm(DType::kF32, 0.5), x());
  const ir::Stmt store =
      ir::If::make(ir::lt(at, ir::int_imm(kOdd)), ir::Store::make(out, {at}, value));
  ir::Stmt body = ir::For::make(j, 4, ir::LoopKind::kSerial, store);
  body = ir::For::make(i, 4, ir::LoopKind::kSerial, body);
  const ir::Func func = ir::Func{"guarded", {a, out}, 1, body};
  const auto text = emit_llvm(func, avx2_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "br i1"), 3) << *text;  // two loops and the guard
  expect_like_interp(func, {edge_values(DType::kF32, kOdd, 3)});
}

// A place that is loaded may be clamped, but where it is loaded from is not.
TEST(SelectTest, IndicesOfPlacesAreReadOnTheSideTakenOnly) {
  const Buffer a = Buffer::make("a", DType::kF32, {kSize});
  const Buffer index = Buffer::make("index", DType::kI64, {4});
  const Buffer out = Buffer::make("out", DType::kF32, {kPadded});
  const Expr i = ir::Var::make("i");
  const Expr place = ir::min(ir::max(ir::Load::make(index, {i}), ir::int_imm(0)), ir::int_imm(15));
  const Expr value =
      ir::select(ir::lt(i, ir::int_imm(4)), ir::Load::make(a, {place}), ir::imm(DType::kF32, -1));
  const auto text = emit_llvm(elementwise({a, index}, {{out, value}}, i, 1), avx2_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "br i1"), 2) << *text;  // the loop and the select
}

// Clamped places lie inside whatever is loaded for them.
TEST(SelectTest, ClampedGathersAreNoBranch) {
  constexpr std::int64_t kTable = 7, kReads = 16;
  const Buffer table = Buffer::make("table", DType::kF32, {kTable});
  const Buffer index = Buffer::make("index", DType::kI64, {kReads});
  const Buffer out = Buffer::make("out", DType::kF32, {kReads});
  const Expr i = ir::Var::make("i");
  const Expr p = load_vec(index, i * 8, 8);
  const auto all = [&](std::int64_t v) { return ir::imm_like(p.type(), static_cast<double>(v)); };
  const Expr inside = ir::logical_and(ir::le(all(0), p), ir::lt(p, all(kTable)));
  const Expr place = ir::min(ir::max(p, all(0)), all(kTable - 1));
  const Expr value =
      ir::select(inside, ir::Load::make(table, {place}), ir::imm_like({DType::kF32, 8}, 0));
  const ir::Func func = elementwise({table, index}, {{out, value}}, i, 8);
  const auto text = emit_llvm(func, avx2_target());
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(count(*text, "br i1"), 1) << *text;  // the loop
  HostTensor places(DType::kI64, {kReads});
  for (std::int64_t k = 0; k < kReads; ++k) places.set_int(k, k * 3 - 20);
  expect_like_interp(func, {edge_values(DType::kF32, kTable, 4), places});
}

}  // namespace
}  // namespace tessera::codegen
