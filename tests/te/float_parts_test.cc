#include "tessera/lang/te/ops/float_parts.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace tessera::te {
namespace {

HostTensor of(const std::vector<float>& values) {
  HostTensor out(DType::kF32, {static_cast<std::int64_t>(values.size())});
  for (std::size_t i = 0; i < values.size(); ++i) out.as<float>()[i] = values[i];
  return out;
}

double sum(const HostTensor& parts, std::int64_t i) {
  const std::int64_t n = parts.shape()[1];
  return parts.get_float(i) + parts.get_float(n + i) + parts.get_float(2 * n + i);
}

TEST(FloatParts, AddUpToWhatTheyAreOf) {
  std::vector<float> values = {0.0F, -0.0F, 1.0F, -1.0F, 1.0F + 0x1p-23F, 0x1.fffffep0F};
  // The largest would round to an infinity of bf16.
  for (const float big : {std::numeric_limits<float>::max(), 0x1.fep127F, 0x1.ffp127F})
    values.insert(values.end(), {big, -big});
  Rng rng(3);
  const HostTensor random = random_tensor(DType::kF32, {4096}, rng);
  for (std::int64_t i = 0; i < random.size(); ++i) {
    const int exponent = static_cast<int>(i % 210) - 85;
    values.push_back(std::ldexp(static_cast<float>(random.get_float(i)), exponent));
  }
  const HostTensor x = of(values), parts = float_parts(x);
  ASSERT_EQ(parts.shape(), (Shape{3, x.size()}));
  ASSERT_EQ(parts.dtype(), DType::kBF16);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    EXPECT_EQ(sum(parts, i), x.get_float(i)) << i;
    // The second is small: what products leave out is, too.
    EXPECT_LE(std::abs(parts.get_float(x.size() + i)), 0x1p-7 * std::abs(x.get_float(i))) << i;
  }
}

TEST(FloatParts, OfTheSmallestLoseTheirLastBits) {
  const HostTensor x = of({0x1.23456p-120F, 0x1.fffffep-126F, 0x1p-149F});
  const HostTensor parts = float_parts(x);
  for (std::int64_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(sum(parts, i), x.get_float(i), 0x1p-133) << i;
}

// The last part alone is infinite: it meets the first part of the other operand only, which has the
// sign of the whole.
TEST(FloatParts, OfAnInfinityAddUpToIt) {
  const float infinity = std::numeric_limits<float>::infinity();
  const HostTensor x = of({infinity, -infinity, std::numeric_limits<float>::quiet_NaN()});
  const HostTensor parts = float_parts(x);
  EXPECT_EQ(sum(parts, 0), infinity);
  EXPECT_EQ(sum(parts, 1), -infinity);
  EXPECT_TRUE(std::isnan(sum(parts, 2)));
  for (std::int64_t i = 0; i < 2 * x.size(); ++i) EXPECT_FALSE(std::isinf(parts.get_float(i))) << i;
}

// Every term but those of less than 2^-24, each once, and larger ones later.
TEST(FloatParts, TermsAreThoseThatMatter) {
  std::set<std::pair<std::int64_t, std::int64_t>> terms;
  std::int64_t before = 2;
  for (const PartTerm& t : kPartTerms) {
    EXPECT_LE(t.left + t.right, before);
    before = t.left + t.right;
    terms.insert({t.left, t.right});
  }
  EXPECT_EQ(terms.size(), 6U);
  EXPECT_EQ(before, 0);
}

TEST(FloatParts, AreOfF32) {
  const auto made = [](const char* spec) { return make_dag(parse_op_spec(spec).value()); };
  EXPECT_TRUE(made("matmul:M=3,N=4,K=5,algo=bf16x6").ok());
  const auto refused = made("dense:M=3,N=4,K=5,algo=bf16x6,dtype=f16");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message, "dense: algo=bf16x6 is of f32");
}

// Keys of records and plans stay as they were.
TEST(FloatParts, TheUsualAlgorithmIsUnsaid) {
  EXPECT_EQ(to_text(parse_op_spec("dense:M=3,N=4,K=5,algo=direct").value()),
            "dense:M=3,N=4,K=5,dtype=f32");
  EXPECT_EQ(to_text(parse_op_spec("dense:M=3,N=4,K=5,algo=bf16x6").value()),
            "dense:M=3,N=4,K=5,algo=bf16x6,dtype=f32");
}

}  // namespace
}  // namespace tessera::te
