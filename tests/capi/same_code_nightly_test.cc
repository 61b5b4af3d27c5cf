// Every way into the library gives the same code: the whole zoo, in every type that it offers.
#include <gtest/gtest.h>

#include "tessera/zoo/zoo.h"
#include "tests/capi/same_code.h"

namespace tessera::capi {
namespace {

std::vector<std::string> all_models() {
  std::vector<std::string> out;
  for (const zoo::ZooEntry& entry : zoo::zoo_table()) {
    out.push_back("zoo:" + entry.name);
    for (const zoo::ZooWord& word : entry.words) {
      if (word.name != "dtype" && word.name != "quant") continue;
      for (std::size_t i = 1; i < word.choices.size(); ++i) {
        out.push_back("zoo:" + entry.name + "@" + word.name + "=" + word.choices[i]);
      }
    }
  }
  return out;
}

class SameCodeOfTheZoo : public ::testing::TestWithParam<std::string> {};

TEST_P(SameCodeOfTheZoo, EveryWayIn) { expect_same_code(GetParam()); }

INSTANTIATE_TEST_SUITE_P(Zoo, SameCodeOfTheZoo, ::testing::ValuesIn(all_models()));

}  // namespace
}  // namespace tessera::capi
