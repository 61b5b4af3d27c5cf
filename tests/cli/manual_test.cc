// Manual pages and completions are made of the same table of flags as the help.
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tessera/support/temporary_folder.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

bool has_program(const std::string& name) {
  return run_shell("command -v " + name + " >/dev/null").code == 0;
}

// Long flags in the help of a command.
std::set<std::string> flags_of(const std::string& command) {
  const std::string help = run({command, "--help"}).out;
  std::set<std::string> flags;
  for (std::size_t at = 0; (at = help.find("\n  -", at)) != std::string::npos; ++at) {
    const std::string line = help.substr(at + 3, help.find_first_of(" \n", at + 3) - at - 3);
    const std::size_t name = line.find("--");
    // Of several names the first.
    if (name != std::string::npos) flags.insert(line.substr(name, line.find(',', name) - name));
  }
  return flags;
}

class Manual : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished written = run({"manual", folder_});
    ASSERT_EQ(written.code, 0) << written.err;
  }

  // Tests run side by side.
  const TemporaryFolder place_ = TemporaryFolder::make("manual").value();
  const std::string folder_ = place_.path() + "/share";
};

TEST_F(Manual, EveryCommandHasAPageWithItsFlags) {
  const std::string help = run({"--help"}).out;
  for (std::size_t at = help.find("\n  ", help.find("Subcommands:\n")); at != std::string::npos;
       at = help.find("\n  ", at + 1)) {
    const std::string name = help.substr(at + 3, help.find(' ', at + 3) - at - 3);
    if (name.empty()) continue;  // the rest of a description
    const std::string page = read_file(fmt::format("{}/man/man1/tessera-{}.1", folder_, name));
    EXPECT_EQ(page.rfind(".TH ", 0), 0u) << name;
    // Where the trainer is built, the flags are those of that program, which prints them.
    if (name == "train" && page.find("tessera train \\-\\-help lists them") != std::string::npos)
      continue;
    for (std::string flag : flags_of(name)) {
      for (std::size_t d = 0; (d = flag.find('-', d)) != std::string::npos; d += 2)
        flag.replace(d, 1, "\\-");
      EXPECT_NE(page.find("\\fB" + flag + "\\fR"), std::string::npos) << name << " " << flag;
    }
  }
  EXPECT_TRUE(fs::exists(folder_ + "/man/man1/tessera-db-list.1"));
  EXPECT_FALSE(fs::exists(folder_ + "/man/man1/tessera-manual.1")) << "a hidden command";
}

TEST_F(Manual, PagesAreWithoutWarnings) {
  if (!has_program("groff")) GTEST_SKIP() << "groff is not installed";
  const Finished all = run_shell("for f in " + folder_ +
                                 "/man/man1/*.1; do groff -man -Tutf8 -ww \"$f\" >/dev/null; done");
  EXPECT_EQ(all.code, 0);
  EXPECT_EQ(all.err, "");
}

TEST_F(Manual, AFolderThatCannotBeMadeIsAnError) {
  const Finished refused = run({"manual", "/proc/nothing"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("/proc/nothing"), std::string::npos) << refused.err;
}

TEST(Completion, OfBashFollowsTheCommandLine) {
  const auto complete = [](const std::string& words) {
    const Finished done =
        run_shell("bash -c 'source <(tessera completion bash); COMP_WORDS=(" + words +
                  "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _tessera; echo \"${COMPREPLY[@]}\"'");
    EXPECT_EQ(done.err, "");
    return done.out;
  };
  EXPECT_EQ(complete("tessera conf"), "conformance\n");
  EXPECT_EQ(complete("tessera db exp"), "explain export\n");
  EXPECT_EQ(complete("tessera tune zoo:mlp --bud"), "--budget\n");
  EXPECT_EQ(complete("tessera compile --emit \"\""), "so a obj\n");
  EXPECT_EQ(complete("tessera compile --emit so LICEN"), "LICENSE\n");
  EXPECT_EQ(complete("tessera run --outp").rfind("--output", 0), 0u);
  EXPECT_EQ(complete("tessera --ver"), "--version\n");
  EXPECT_EQ(complete("tessera check zoo:len"), "zoo:lenet\n");
  EXPECT_EQ(complete("tessera check zoo : len"), "lenet\n") << "bash breaks words at colons";
  EXPECT_EQ(complete("tessera tune zoo :").find("zoo:"), std::string::npos);
  EXPECT_NE(complete("tessera tune zoo :").find(" lenet "), std::string::npos);
  EXPECT_EQ(complete("tessera run LICEN"), "LICENSE\n");
  EXPECT_EQ(complete("tessera compile --target neoverse-v"), "neoverse-v1 neoverse-v2\n");
  EXPECT_EQ(complete("tessera run --target cu"), "cuda\n");
  EXPECT_EQ(complete("tessera compile zoo:mlp --output LICEN"), "LICENSE\n");
}

TEST(Completion, OfFishFollowsTheCommandLine) {
  if (!has_program("fish")) GTEST_SKIP() << "fish is not installed";
  const auto complete = [](const std::string& line) {
    // fish makes the folder of its settings.
    const Finished done =
        run_shell(fmt::format("export XDG_CONFIG_HOME=\"{}fish\" && fish --no-config -c 'tessera "
                              "completion fish | source; complete -C \"{}\"'",
                              ::testing::TempDir(), line));
    EXPECT_EQ(done.err, "");
    return done.out;
  };
  EXPECT_EQ(complete("tessera conf").rfind("conformance\t", 0), 0u);
  EXPECT_EQ(complete("tessera tune zoo:mlp --budg").rfind("--budget\t", 0), 0u);
  EXPECT_EQ(complete("tessera compile --emit o").rfind("obj\t", 0), 0u);
  EXPECT_EQ(complete("tessera db expl").rfind("explain\t", 0), 0u);
}

TEST(Completion, OfZshIsReadWithoutAnError) {
  if (!has_program("zsh")) GTEST_SKIP() << "zsh is not installed";
  const Finished read = run_shell(
      "zsh -fc 'autoload -Uz compinit && compinit -D -u && source <(tessera completion zsh) && "
      "whence -w _tessera_dataset_collect && print ${_comps[tessera]}'");
  EXPECT_EQ(read.code, 0) << read.err;
  EXPECT_EQ(read.err, "");
  EXPECT_EQ(read.out, "_tessera_dataset_collect: function\n_tessera\n");
}

TEST(Completion, OtherShellsAreRefused) {
  const Finished refused = run({"completion", "tcsh"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_NE(refused.err.find("tcsh"), std::string::npos) << refused.err;
}

// A program that was copied away from its weights says so, and finds those that a variable names.
TEST(CopiedProgram, SaysThatItHasNoWeights) {
  const fs::path folder = fs::path(::testing::TempDir()) / "tessera_copied";
  fs::remove_all(folder);
  fs::create_directories(folder);
  std::error_code error;
  fs::create_hard_link(TESSERA_BINARY, folder / "tessera", error);
  if (error) fs::copy_file(TESSERA_BINARY, folder / "tessera");
  const std::string compile = (folder / "tessera").string() +
                              " compile zoo:mlp --threads 1 --cost-model shipped -o " +
                              (folder / "out").string();
  if (!fs::exists("/usr/share/tessera") && !fs::exists("/usr/local/share/tessera")) {
    const Finished none = run_shell("env -u TESSERA_SHARE " + compile);
    EXPECT_EQ(none.code, 0) << none.err;
    EXPECT_NE(none.err.find("no trained weights"), std::string::npos) << none.err;
  }
  fs::create_directories(folder / "share");
  fs::create_directory_symlink(TESSERA_ROOT "/weights", folder / "share/weights");
  const Finished some = run_shell("TESSERA_SHARE=" + (folder / "share").string() + " " + compile);
  EXPECT_EQ(some.code, 0) << some.err;
  EXPECT_EQ(some.err.find("no trained weights"), std::string::npos) << some.err;
  fs::remove_all(folder);
}

}  // namespace
}  // namespace tessera::cli
