// What happens to the streams: full disks, closed outputs, Ctrl-C.
#include <csignal>
#include <string>

#include <gtest/gtest.h>

#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

class Unwritable : public ::testing::TestWithParam<const char*> {};

TEST_P(Unwritable, FullDiskIsAnError) {
  const Finished result = run_shell(std::string(GetParam()) + " > /dev/full");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("No space left on device"), std::string::npos) << result.err;
}

TEST_P(Unwritable, ClosedStdoutIsAnError) {
  const Finished result = run_shell(std::string(GetParam()) + " >&-");
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("Bad file descriptor"), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Cli, Unwritable,
    ::testing::Values("tessera --help", "tessera targets", "tessera bench --list-ops",
                      "tessera zoo", "tessera check zoo:mlp", "tessera tasks zoo:mlp --json",
                      "tessera run zoo:mlp --random", "tessera show zoo:mlp --stage graph",
                      "tessera bench zoo:mlp --samples 1 --time-limit 0.05 --json",
                      "tessera show --op matmul:M=4,N=4,K=4",
                      "tessera bench --op matmul:M=4,N=4,K=4 --samples 1 --time-limit 0.05",
                      "tessera bench --op matmul:M=4,N=4,K=4 --samples 1 --time-limit 0.05 --json"),
    [](const auto& command) { return "Command" + std::to_string(command.index); });

// Messages are lost; the command does what it does.
class Unheard : public ::testing::TestWithParam<const char*> {};

TEST_P(Unheard, StderrThatTakesNothing) {
  const std::string file = write_file("copy.onnx", "");
  const std::string export_mlp = "tessera zoo --export mlp -o " + file + GetParam();
  EXPECT_EQ(run_shell(export_mlp).code, 0);
  EXPECT_EQ(run({"check", file}).code, 0);
  const std::string out = " -o " + write_file("marker", "") + ".out";
  EXPECT_EQ(run_shell("tessera compile zoo:mlp --emit obj" + out + GetParam()).code, 0);
  EXPECT_EQ(run_shell(std::string("tessera frobnicate") + GetParam()).code, 2);
  EXPECT_EQ(run_shell(std::string("tessera check absent.onnx") + GetParam()).code, 2);
}

INSTANTIATE_TEST_SUITE_P(Cli, Unheard, ::testing::Values(" 2> /dev/full", " 2>&-", " <&- 2>&-"),
                         [](const auto& how) { return "How" + std::to_string(how.index); });

TEST(Output, AReaderOfMessagesThatLeavesDoesNotEndTheProgram) {
  const std::string code = write_file("code", "");
  run_shell("(sleep 0.2; tessera frobnicate; echo $? > " + code + ") 2>&1 | true");
  EXPECT_EQ(read_file(code), "2\n");
}

// Its number must not become that of a file that the command writes.
TEST(Output, ClosedStreamsDoNotReachFiles) {
  const std::string file = write_file("y.npz", "");
  const Finished open = run({"run", "zoo:mlp", "--random", "-o", file});
  ASSERT_EQ(open.code, 0) << open.err;
  const std::string wanted = read_file(file);
  const Finished closed = run_shell("tessera run zoo:mlp --random -o " + file + " <&- >&- 2>&-");
  EXPECT_EQ(closed.code, 1);
  EXPECT_EQ(read_file(file), wanted);
}

// On a terminal that `script` makes.
TEST(Output, ColourIsForTerminalsWithoutNoColor) {
  if (run_shell("command -v script >/dev/null").code != 0) GTEST_SKIP() << "script is absent";
  const auto on_terminal = [](const std::string& environment) {
    return run_shell("env " + environment +
                     " script -qec 'tessera check absent.onnx; tessera check zoo:mlp' /dev/null")
        .out;
  };
  const std::string red = "\x1b[1;31mtessera:\x1b[0m cannot read 'absent.onnx'";
  const std::string green = "\x1b[1;32msupported\x1b[0m";
  const std::string coloured = on_terminal("-u NO_COLOR TERM=xterm");
  EXPECT_NE(coloured.find(red), std::string::npos) << coloured;
  EXPECT_NE(coloured.find(green), std::string::npos) << coloured;
  for (const char* plain :
       {"NO_COLOR=1 TERM=xterm", "-u NO_COLOR TERM=dumb", "-u NO_COLOR -u TERM"}) {
    const std::string out = on_terminal(plain);
    EXPECT_EQ(out.find('\x1b'), std::string::npos) << plain << out;
    EXPECT_NE(out.find("tessera: cannot read"), std::string::npos) << plain << out;
  }
  const Finished piped = run_shell("env -u NO_COLOR TERM=xterm tessera check absent.onnx");
  EXPECT_EQ(piped.err.find('\x1b'), std::string::npos) << piped.err;
}

TEST(Output, AReaderThatLeavesEndsTheProgramQuietly) {
  const Finished result = run_shell("tessera targets | head -n 1");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
}

// SIGINT keeps its default action: the shell reports 130 and a loop around the program stops as
// well.
TEST(Output, InterruptedBenchKeepsTheRowsItPrinted) {
  const Finished result = run_interrupted({"bench", "--op", "matmul:M=4,N=4,K=4", "--op",
                                           "matmul:M=8,N=8,K=8", "--samples", "1", "--time-limit",
                                           "0.05", "--op", "matmul:M=512,N=512,K=512"});
  EXPECT_EQ(result.signal, SIGINT) << result.code;
  EXPECT_NE(result.out.find("matmul:M=4,N=4,K=4"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace tessera::cli
