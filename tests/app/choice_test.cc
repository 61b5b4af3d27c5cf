// Learned choices stay within what the models learnt from: the shipped ones never saw bytes.
#include <gtest/gtest.h>

#include "tests/app/choice_case.h"

namespace tessera::app {
namespace {

class LearnedChoice : public ::testing::TestWithParam<const char*> {};

TEST_P(LearnedChoice, KeepsTheDefaultsOfBytes) {
  const Choice choice = choice_of(GetParam(), target::find_target("sapphirerapids").value());
  EXPECT_GT(choice.tasks, 0u);
  for (const std::string& types : choice.types) {
    EXPECT_TRUE(types == "f32" || types == "f32+i64") << types;
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LearnedChoice,
                         ::testing::Values("zoo:mlp", "zoo:mlp@dtype=f16", "zoo:mlp@quant=qdq",
                                           "zoo:mlp@quant=dynamic",
                                           "zoo:resnet18@quant=qdq,size=64,classes=10",
                                           "zoo:mobilenet_v2@quant=qdq,size=64,classes=10"));

TEST(LearnedChoice, OfOtherFloatsAndMachinesIsTheDefault) {
  const target::Target known = target::find_target("sapphirerapids").value();
  EXPECT_EQ(choice_of("zoo:lenet", known, DType::kBF16).changed, 0u);
  EXPECT_EQ(choice_of("zoo:lenet", target::find_target("haswell").value()).changed, 0u);
}

}  // namespace
}  // namespace tessera::app
