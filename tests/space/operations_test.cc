// Every operation at small odd sizes.
#include <string>

#include <gtest/gtest.h>

#include "tests/space/space_case.h"

namespace tessera::space {
namespace {

const char* const kSpecs[] = {
#include "tests/bench/specs.inc"
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

TEST(Operations, AreCorrectForOtherMachines) {
  int number = 0;
  for (const char* spec : kSpecs) {
    SCOPED_TRACE(spec);
    target::Target target =
        target::find_target(++number % 2 == 0 ? "haswell" : "skylake-avx512").value();
    target.cores = 64;
    if (number % 2 == 0) expect_correct(dag_of(spec), target, false, slack_of(spec));
  }
}

}  // namespace
}  // namespace tessera::space
