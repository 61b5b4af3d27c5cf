// Operators that draw random numbers: what is drawn follows from the seed, or from the output's
// name.
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_node.h"

namespace tessera::onnx::testing {
namespace {

using ::testing::HasSubstr;

OneNode random(const std::string& op, std::vector<Attribute> attributes) {
  return {.op = op, .attributes = std::move(attributes)};
}

HostTensor drawn(const OneNode& node, const std::vector<Operand>& operands = {}) {
  const auto y = run_node(node, operands);
  EXPECT_TRUE(y.ok()) << node.op << ": " << y.error().message;
  return y.ok() ? y->at(0) : HostTensor();
}

Attribute shape(std::vector<std::int64_t> sizes) { return {"shape", std::move(sizes), ""}; }

struct Moments {
  double mean = 0, deviation = 0, least = 0, most = 0;
};
Moments moments(const HostTensor& t) {
  Moments m{0, 0, t.get_float(0), t.get_float(0)};
  double squares = 0;
  for (const double v : values_of(t)) {
    m.mean += v / static_cast<double>(t.size());
    squares += v * v / static_cast<double>(t.size());
    m.least = std::min(m.least, v);
    m.most = std::max(m.most, v);
  }
  m.deviation = std::sqrt(squares - m.mean * m.mean);
  return m;
}

TEST(RandomImport, NormalAndUniformNumbers) {
  const Moments n = moments(
      drawn(random("RandomNormal", {shape({100, 100}), attr("mean", 3.0F), attr("scale", 2.0F)})));
  EXPECT_NEAR(n.mean, 3, 0.1);
  EXPECT_NEAR(n.deviation, 2, 0.1);
  EXPECT_GT(n.most, 7);
  const Moments u = moments(
      drawn(random("RandomUniform", {shape({10000}), attr("low", -1.0F), attr("high", 3.0F)})));
  EXPECT_NEAR(u.mean, 1, 0.1);
  EXPECT_NEAR(u.deviation, 4 / std::sqrt(12.0), 0.1);
  EXPECT_GE(u.least, -1);
  EXPECT_LT(u.most, 3);
}

// Every 4096th number between 0 and 1 is nearer to 1 than to what f16 holds below it.
TEST(RandomImport, RoundingDoesNotReachTheEnd) {
  const Moments m =
      moments(drawn(random("RandomUniform", {shape({200, 500}), attr("dtype", std::int64_t{10})})));
  EXPECT_GT(m.most, 0.999);
  EXPECT_LT(m.most, 1);
  EXPECT_NEAR(m.mean, 0.5, 0.01);
}

TEST(RandomImport, TheSeedDecides) {
  const HostTensor like(DType::kF16, {2, 8});
  const auto of = [&](const char* op, std::vector<Attribute> attributes) {
    return values_of(drawn(random(op, std::move(attributes)), {like}));
  };
  for (const char* op : {"RandomNormalLike", "RandomUniformLike"}) {
    EXPECT_EQ(of(op, {}), of(op, {}));
    EXPECT_EQ(of(op, {attr("seed", 1.0F)}), of(op, {attr("seed", 1.0F)}));
    EXPECT_NE(of(op, {attr("seed", 1.0F)}), of(op, {attr("seed", 2.0F)}));
    EXPECT_NE(of(op, {attr("seed", 1.0F)}), of(op, {}));
    EXPECT_EQ(drawn(random(op, {}), {like}).dtype(), DType::kF16);
    EXPECT_EQ(drawn(random(op, {attr("dtype", std::int64_t{11})}), {like}).dtype(), DType::kF64);
  }
}

TEST(RandomImport, NodesWithoutASeedDiffer) {
  Graph graph = make_graph({},
                           {make_node("RandomUniform", {}, {"a"}, {shape({4})}),
                            make_node("RandomUniform", {}, {"b"}, {shape({4})})},
                           {"a", "b"});
  const auto imported = import_model(make_model(std::move(graph)));
  ASSERT_TRUE(imported.ok()) << imported.error().message;
  EXPECT_NE(values_of(*imported->constant(imported->outputs[0])),
            values_of(*imported->constant(imported->outputs[1])));
}

TEST(RandomImport, StepsOfALoopDiffer) {
  for (const bool seeded : {false, true}) {
    std::vector<Attribute> attributes = {shape({4})};
    if (seeded) attributes.push_back(attr("seed", 1.0F));
    Graph body = make_graph({value_info("i", DType::kI64, {}), value_info("go", DType::kBool, {})},
                            {make_node("RandomUniform", {}, {"r"}, attributes)}, {"go", "r"});
    Graph graph =
        make_graph({}, {make_node("Loop", {"n", ""}, {"y"}, {body_attribute("body", body)})}, {"y"},
                   {{"n", int_tensor({}, {2})}});
    const auto imported = import_model(make_model(std::move(graph)));
    ASSERT_TRUE(imported.ok()) << imported.error().message;
    const auto y = graph::evaluate(*imported, {});
    ASSERT_TRUE(y.ok()) << y.error().message;
    ASSERT_EQ((*y)[0].shape(), (Shape{2, 4}));
    for (std::int64_t i = 0; i < 4; ++i)
      EXPECT_NE((*y)[0].get_float(i), (*y)[0].get_float(4 + i)) << seeded;
  }
}

TEST(RandomImport, Bernoulli) {
  HostTensor p(DType::kF32, {4, 2000});
  for (std::int64_t i = 0; i < p.size(); ++i) p.set_float(i, i < 2000 ? 0 : i < 4000 ? 1 : 0.25);
  const HostTensor y = drawn(random("Bernoulli", {attr("dtype", std::int64_t{6})}), {p});
  EXPECT_EQ(y.dtype(), DType::kI32);
  double ones = 0;
  for (std::int64_t i = 0; i < y.size(); ++i) {
    if (i < 4000) {
      ASSERT_EQ(y.get_int(i), i < 2000 ? 0 : 1);
    }
    ones += i < 4000 ? 0 : static_cast<double>(y.get_int(i));
  }
  EXPECT_NEAR(ones / 4000, 0.25, 0.03);
}

TEST(RandomImport, Multinomial) {
  const HostTensor logits =
      tensor(DType::kF32, {2, 3}, {std::log(1.0), std::log(2.0), std::log(5.0), -99, 7, -99});
  const HostTensor y = drawn(random("Multinomial", {attr("sample_size", std::int64_t{4000}),
                                                    attr("dtype", std::int64_t{7})}),
                             {logits});
  EXPECT_EQ(y.dtype(), DType::kI64);
  ASSERT_EQ(y.shape(), (Shape{2, 4000}));
  double counts[3] = {};
  for (std::int64_t i = 0; i < 4000; ++i) {
    counts[y.get_int(i)] += 1;
    ASSERT_EQ(y.get_int(4000 + i), 1);
  }
  EXPECT_NEAR(counts[0] / 4000, 0.125, 0.03);
  EXPECT_NEAR(counts[1] / 4000, 0.25, 0.03);
}

TEST(RandomImport, WhatIsRefusedHasAReason) {
  EXPECT_THAT(refusal(random("RandomNormal", {shape({2, -1})}), {}), HasSubstr("negative"));
  EXPECT_THAT(refusal(random("RandomNormal", {shape({1 << 20, 1 << 10})}), {}),
              HasSubstr("1073741824 random numbers"));
  EXPECT_THAT(refusal(random("RandomUniform", {shape({2}), attr("dtype", std::int64_t{6})}), {}),
              HasSubstr("type i32"));
  const HostTensor x(DType::kF32, {2, 3});
  EXPECT_THAT(refusal(random("Multinomial", {attr("sample_size", std::int64_t{0})}), {x}),
              HasSubstr("0 samples"));
  EXPECT_THAT(refusal(random("Multinomial", {attr("dtype", std::int64_t{1})}), {x}),
              HasSubstr("classes of type f32"));
}

}  // namespace
}  // namespace tessera::onnx::testing
