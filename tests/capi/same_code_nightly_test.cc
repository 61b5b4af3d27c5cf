// Every way into the library gives the same code: the whole zoo, in every type that it offers.
#include <gtest/gtest.h>

#include "tests/capi/same_code.h"
#include "tests/zoo/typed_models.h"

namespace tessera::capi {
namespace {

class SameCodeOfTheZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(SameCodeOfTheZoo, EveryWayIn) { expect_same_code(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Zoo, SameCodeOfTheZoo, ::testing::ValuesIn(zoo::typed_models()));

}  // namespace
}  // namespace tessera::capi
