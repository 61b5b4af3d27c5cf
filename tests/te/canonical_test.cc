#include "tessera/lang/te/canonical.h"

#include <functional>

#include <gtest/gtest.h>

namespace tessera::te {
namespace {

Dag parsed(const std::string& text) {
  Result<Dag> dag = dag_from_text(text);
  EXPECT_TRUE(dag.ok()) << (dag.ok() ? "" : dag.error().message);
  return std::move(*dag);
}

// A product with two additions behind it, as graphs may write it.
std::string product(const std::string& first, const std::string& second,
                    const std::string& inputs) {
  return "dag contract+add+add\n" + inputs +
         "  stage contract: f32[4, 6]\n"
         "    contract[i, j] = sum(k in 8) p0[i, k] * p1[k, j]\n"
         "  stage add: f32[4, 6]\n    add[i0, i1] = " +
         first + "\n  stage add_2: f32[4, 6]\n    add_2[i0, i1] = " + second + "\n  output add_2\n";
}

constexpr const char* kBiasThenRest =
    "  input p0: f32[4, 8]\n  constant p1: f32[8, 6]\n  constant p2: f32[6]\n"
    "  input p3: f32[4, 6]\n";

TEST(Canonical, WhatIsCanonicalStays) {
  const std::string text =
      product("contract[i0, i1] + p2[i1]", "add[i0, i1] + p3[i0, i1]", kBiasThenRest);
  const Canonical c = canonicalize(parsed(text));
  EXPECT_EQ(to_text(c.dag), text);
  EXPECT_EQ(c.inputs, (std::vector<std::size_t>{0, 1, 2, 3}));
  EXPECT_TRUE(c.renamed.empty());
}

TEST(Canonical, OperandsThatCommuteHaveOneOrder) {
  const std::string text =
      product("contract[i0, i1] + p2[i1]", "add[i0, i1] + p3[i0, i1]", kBiasThenRest);
  for (const char* first : {"contract[i0, i1] + p2[i1]", "p2[i1] + contract[i0, i1]"}) {
    for (const char* second : {"add[i0, i1] + p3[i0, i1]", "p3[i0, i1] + add[i0, i1]"}) {
      EXPECT_EQ(to_text(canonicalize(parsed(product(first, second, kBiasThenRest))).dag), text);
    }
  }
}

TEST(Canonical, InputsCountInTheOrderOfTheirUse) {
  const std::string inputs =
      "  input p3: f32[4, 8]\n  constant p2: f32[8, 6]\n  input p0: f32[4, 6]\n"
      "  constant p1: f32[6]\n";
  std::string text = product("contract[i0, i1] + p1[i1]", "add[i0, i1] + p0[i0, i1]", inputs);
  text.replace(text.find("p0[i, k] * p1[k, j]"), 19, "p3[i, k] * p2[k, j]");
  const Canonical c = canonicalize(parsed(text));
  EXPECT_EQ(to_text(c.dag),
            product("contract[i0, i1] + p2[i1]", "add[i0, i1] + p3[i0, i1]", kBiasThenRest));
  EXPECT_EQ(c.inputs, (std::vector<std::size_t>{0, 1, 3, 2}));
  EXPECT_EQ(rename("layout p2 d1/4 d0 d1%4\nannotate add_2 i0 parallel\n", c.renamed),
            "layout p1 d1/4 d0 d1%4\nannotate add_2 i0 parallel\n");
  EXPECT_EQ(rename("reasoned: contract.p2=tiles contract.rows=2", c.renamed),
            "reasoned: contract.p1=tiles contract.rows=2");
}

// exp and log of one input, added: the stages may come in any order and under any number.
TEST(Canonical, IndependentStagesHaveOneOrder) {
  const auto text = [](bool swapped) {
    const std::string a = swapped ? "mul_2" : "mul", b = swapped ? "mul" : "mul_2";
    const std::string exp = "  stage " + a + ": f32[4]\n    " + a + "[i0] = exp(p0[i0]) * 2.0\n";
    const std::string log = "  stage " + b + ": f32[4]\n    " + b + "[i0] = log(p0[i0]) * 2.0\n";
    return "dag mul+mul+add\n  input p0: f32[4]\n" + (swapped ? log + exp : exp + log) +
           "  stage add: f32[4]\n    add[i0] = " + (swapped ? b : a) + "[i0] + " +
           (swapped ? a : b) + "[i0]\n  output add\n";
  };
  const std::string once = to_text(canonicalize(parsed(text(false))).dag);
  EXPECT_EQ(to_text(canonicalize(parsed(text(true))).dag), once);
  EXPECT_EQ(to_text(canonicalize(parsed(once)).dag), once);
}

// Two inputs of one shape are told apart by what else reads them.
TEST(Canonical, UsesTellEqualInputsApart) {
  const auto text = [](const std::string& squared) {
    return "dag mul+add\n  input p0: f32[4]\n  input p1: f32[4]\n"
           "  stage mul: f32[4]\n    mul[i0] = p0[i0] * p1[i0]\n"
           "  stage add: f32[4]\n    add[i0] = mul[i0] + exp(" +
           squared + "[i0])\n  output add\n";
  };
  EXPECT_EQ(to_text(canonicalize(parsed(text("p0"))).dag),
            to_text(canonicalize(parsed(text("p1"))).dag));
}

TEST(Canonical, WhatDoesNotCommuteStays) {
  const auto text = [](const std::string& value) {
    return "dag sub\n  input p0: f32[4]\n  constant p1: f32[4]\n"
           "  stage sub: f32[4]\n    sub[i0] = " +
           value + "\n  output sub\n";
  };
  EXPECT_NE(to_text(canonicalize(parsed(text("p0[i0] - p1[i0]"))).dag),
            to_text(canonicalize(parsed(text("p1[i0] - p0[i0]"))).dag));
}

// What chooses among many inputs names them in the order of their use, whatever they were called.
TEST(Canonical, ManyInputsOfOneStage) {
  constexpr int kParts = 100;
  const auto text = [](const std::function<int(int)>& number) {
    std::string inputs, value = fmt::format("p{}[i0]", number(kParts - 1));
    for (int i = 0; i < kParts; ++i) inputs += fmt::format("  input p{}: f32[4]\n", i);
    for (int i = kParts - 1; i-- > 0;)
      value = fmt::format("select(i0 < {}, p{}[i0], {})", i + 1, number(i), value);
    return "dag concat\n" + inputs + "  stage concat: f32[4]\n    concat[i0] = " + value +
           "\n  output concat\n";
  };
  const Dag plain = parsed(text([](int i) { return i; }));
  EXPECT_EQ(to_text(canonicalize(plain).dag), to_text(plain));
  const Canonical c = canonicalize(parsed(text([](int i) { return i * 7 % kParts; })));
  EXPECT_EQ(to_text(c.dag), to_text(plain));
  for (std::size_t i = 0; i < kParts; ++i) EXPECT_EQ(c.inputs[i], i * 7 % kParts);
}

TEST(Canonical, NamesThatSomeoneChoseStay) {
  const Canonical c =
      canonicalize(parsed("dag mine\n  constant B: f32[4]\n  input A: f32[4]\n"
                          "  stage C_2: f32[4]\n    C_2[i] = B[i] + A[i]\n  output C_2\n"));
  EXPECT_EQ(to_text(c.dag),
            "dag mine\n  constant B: f32[4]\n  input A: f32[4]\n"
            "  stage C_2: f32[4]\n    C_2[i] = A[i] + B[i]\n  output C_2\n");
  EXPECT_TRUE(c.renamed.empty());
}

TEST(Canonical, PartsOfStagesKeepTheirNames) {
  EXPECT_EQ(rename("softmax.max.vectors=4 max.vectors=2", {{"max", "max_2"}}),
            "softmax.max.vectors=4 max_2.vectors=2");
}

TEST(Reduction, IsThatOfTheLargestStageWhateverSurroundsIt) {
  const std::string with_rest =
      product("contract[i0, i1] + p2[i1]", "add[i0, i1] + p3[i0, i1]", kBiasThenRest);
  const std::string alone =
      "dag contract\n  constant p1: f32[8, 6]\n  input p0: f32[4, 8]\n"
      "  stage contract: f32[4, 6]\n"
      "    contract[a, b] = sum(c in 8) p1[c, b] * p0[a, c]\n  output contract\n";
  const std::string larger =
      "dag contract\n  input p0: f32[4, 9]\n  constant p1: f32[9, 6]\n"
      "  stage contract: f32[4, 6]\n"
      "    contract[a, b] = sum(c in 9) p0[a, c] * p1[c, b]\n  output contract\n";
  EXPECT_EQ(reduction_of(parsed(with_rest)), reduction_of(parsed(alone)));
  EXPECT_NE(reduction_of(parsed(alone)), reduction_of(parsed(larger)));
}

}  // namespace
}  // namespace tessera::te
