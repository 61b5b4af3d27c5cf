// Every way into the library gives the same code: small networks of each kind of elements.
#include "tests/capi/same_code.h"

#include <gtest/gtest.h>
#include <tessera/tessera.h>

namespace tessera::capi {
namespace {

class SameCodeOf : public ::testing::TestWithParam<const char*> {};

TEST_P(SameCodeOf, EveryWayIn) { expect_same_code(GetParam()); }

TEST(SameCode, OfOtherFloats) {
  tsr_compile_options options{};
  options.size = sizeof options;
  options.dtype = "bf16";
  tsr_model* model = nullptr;
  const tsr_status status = tsr_get_api(TSR_API_VERSION)->compile("zoo:mlp", &options, &model);
  if (status.code == TSR_UNSUPPORTED) GTEST_SKIP() << status.message;
  tsr_get_api(TSR_API_VERSION)->free_model(model);
  expect_same_code_of_program("zoo:mlp", "--dtype bf16");
}

INSTANTIATE_TEST_SUITE_P(Models, SameCodeOf,
                         ::testing::Values("zoo:mlp", "zoo:mlp@dtype=f16", "zoo:mlp@quant=qdq",
                                           "zoo:mlp@quant=dynamic", "zoo:lenet",
                                           "zoo:resnet18@quant=qdq,size=32,classes=10"));

}  // namespace
}  // namespace tessera::capi
