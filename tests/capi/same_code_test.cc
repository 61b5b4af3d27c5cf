// Every way into the library gives the same code: small networks of each kind of elements.
#include "tests/capi/same_code.h"

#include <gtest/gtest.h>

#include "tessera/app/compile/float_products.h"

namespace tessera::capi {
namespace {

class SameCodeOf : public ::testing::TestWithParam<const char*> {};

TEST_P(SameCodeOf, EveryWayIn) { expect_same_code(GetParam()); }

TEST(SameCode, OfOtherFloats) {
  if (!app::multiplies(target::host(), DType::kBF16)) GTEST_SKIP() << "no products of bf16 here";
  expect_same_code_of_program("zoo:mlp", "--dtype bf16");
}

INSTANTIATE_TEST_SUITE_P(Models, SameCodeOf,
                         ::testing::Values("zoo:mlp", "zoo:mlp@dtype=f16", "zoo:mlp@quant=qdq",
                                           "zoo:mlp@quant=dynamic", "zoo:lenet",
                                           "zoo:resnet18@quant=qdq,size=32,classes=10"));

}  // namespace
}  // namespace tessera::capi
