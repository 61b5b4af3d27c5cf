// Every way into the library gives the same code: small networks of each kind of elements.
#include "tests/capi/same_code.h"

#include <gtest/gtest.h>

namespace tessera::capi {
namespace {

class SameCodeOf : public ::testing::TestWithParam<const char*> {};

TEST_P(SameCodeOf, EveryWayIn) { expect_same_code(GetParam()); }

TEST(SameCode, OfOtherFloats) {
  for (const char* flags : {"--dtype f16", "--dtype bf16"}) {
    expect_same_code_of_program("zoo:mlp", flags);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, SameCodeOf,
                         ::testing::Values("zoo:mlp", "zoo:mlp@dtype=f16", "zoo:mlp@quant=qdq",
                                           "zoo:mlp@quant=dynamic", "zoo:lenet",
                                           "zoo:resnet18@quant=qdq,size=32,classes=10"));

}  // namespace
}  // namespace tessera::capi
