#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernel_runner.h"
#include "tessera/ir/build.h"

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

}  // namespace
}  // namespace tessera::codegen
