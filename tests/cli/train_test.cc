// tessera train, with the trainer beside the program and without.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/cli/process.h"
#include "tests/testing/testing.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

bool is_built() { return fs::exists(fs::path(TESSERA_BINARY).parent_path() / "tessera-train"); }

TEST(Train, HelpIsTheTrainers) {
  if (!is_built()) GTEST_SKIP() << "tessera-train was not built";
  const Finished help = run({"train", "--help"});
  EXPECT_EQ(help.code, 0) << help.err;
  tessera::testing::expect_golden("cli/help_train.txt", help.out);
}

TEST(Train, ItsErrorsAndExitCodesAreTheTrainers) {
  if (!is_built()) GTEST_SKIP() << "tessera-train was not built";
  const Finished absent = run({"train", "--data", "no/such/folder"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_NE(absent.err.find("no/such/folder"), std::string::npos) << absent.err;
  EXPECT_EQ(run({"train", "--data", "x", "--nonsense"}).code, 2);
}

TEST(Train, WithoutTheTrainerItSaysSo) {
  const fs::path folder = fs::path(::testing::TempDir()) / "tessera_alone";
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::copy_file(TESSERA_BINARY, folder / "tessera");
  const std::string program = (folder / "tessera").string();
  const Finished train = run_shell(program + " train --data x");
  EXPECT_EQ(train.code, 6);
  EXPECT_NE(train.err.find("libtorch"), std::string::npos) << train.err;
  const Finished help = run_shell(program + " train --help");
  EXPECT_EQ(help.code, 0) << help.err;
  EXPECT_NE(help.out.find("tessera-train"), std::string::npos) << help.out;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::cli
