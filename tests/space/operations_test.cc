// Every operation at small odd sizes.
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

const char* const kSpecs[] = {
#include "tests/bench/specs.inc"
#include "tests/space/specs.inc"
};

double slack_of(const std::string& spec) {
  return spec.find("winograd") == std::string::npos ? 4 : 512;
}

TEST(Operations, AreCorrectOnThisMachine) {
  int number = 0;
  for (const char* spec : kSpecs) {
    SCOPED_TRACE(spec);
    expect_correct(dag_of(spec), target::host(), ++number % 3 == 0, slack_of(spec));
  }
}

// Every machine of the list gets a share of the operations.
TEST(Operations, AreCorrectForOtherMachines) {
  const std::vector<std::string> machines = {"haswell", "skylake-avx512", "neoverse-v1"};
  for (std::size_t i = 0; i < std::size(kSpecs); ++i) {
    const std::string& machine = machines[i % machines.size()];
    SCOPED_TRACE(machine + " " + kSpecs[i]);
    target::Target target = target::find_target(machine).value();
    target.cores = 64;
    expect_correct(dag_of(kSpecs[i]), target, false, slack_of(kSpecs[i]));
  }
}

}  // namespace
}  // namespace tessera::space
