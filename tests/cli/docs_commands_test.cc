// Commands that the documents name, run or not: each command exists and has the flags it is given.
#include <filesystem>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/cli/documents.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// Lines of blocks, with those that end in a backslash joined, and inline code that begins with the
// name of a program.
std::vector<std::string> command_lines(const std::string& text) {
  static const std::regex inline_code("`((\\./do|tessera) [^`]*)`");
  std::vector<std::string> out;
  std::stringstream lines(text);
  bool block = false;
  std::string joined;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      block = !block;
    } else if (block) {
      joined += line.starts_with("$ ") ? line.substr(2) : line;
      if (joined.ends_with('\\')) {
        joined.pop_back();
        continue;
      }
      out.push_back(std::exchange(joined, ""));
    } else {
      for (std::sregex_iterator it(line.begin(), line.end(), inline_code), end; it != end; ++it) {
        out.push_back((*it)[1]);
      }
    }
  }
  return out;
}

// The words of each call in a line: "a && b | c # why" has three.
std::vector<std::vector<std::string>> calls_in(const std::string& line) {
  static const std::regex comment("(^|\\s)#.*"), between("&&|\\|\\||[|;()<>]");
  static const std::regex assignment("[A-Za-z_]+=.*");
  const std::string code = std::regex_replace(line, comment, "");
  std::vector<std::vector<std::string>> out;
  for (std::sregex_token_iterator it(code.begin(), code.end(), between, -1), end; it != end; ++it) {
    std::istringstream stream(it->str());
    std::vector<std::string> words;
    for (std::string word; stream >> word;) {
      if (words.empty() && std::regex_match(word, assignment)) continue;
      words.push_back(word);
    }
    if (!words.empty()) out.push_back(words);
  }
  return out;
}

const Finished& help_of(const std::vector<std::string>& command) {
  static std::map<std::vector<std::string>, Finished> known;
  const auto found = known.find(command);
  if (found != known.end()) return found->second;
  std::vector<std::string> args = command;
  args.push_back("--help");
  return known[command] = run(args);
}

// Empty when all is well.
std::string mistake_in(const std::vector<std::string>& words) {
  static const std::regex name_of_command("[a-z]+"),
      flag_of_command("(--[a-z][a-z0-9-]*|-[a-z])(=.*)?");
  std::vector<std::string> command;
  std::size_t at = 1;
  const auto is_group = [&] {
    const std::set<std::string> groups = {"dataset", "db", "fleet", "lm", "machine"};
    return command.empty() || groups.contains(command[0]);
  };
  while (at < words.size() && command.size() < 2 && is_group() &&
         std::regex_match(words[at], name_of_command)) {
    command.push_back(words[at++]);
  }
  if (!command.empty() && command[0] == "help") return "";
  const Finished& help = help_of(command);
  if (help.code != 0) return "no such command";
  // Its flags follow from what is trained (rows, graphs), and its help from the first of them.
  if (!command.empty() && command[0] == "train") return "";
  // Where there is no libtorch, the program that has the flags is not built.
  if (help.out.find("which is built where libtorch is found") != std::string::npos) return "";
  for (; at < words.size(); ++at) {
    std::smatch flag;
    if (!std::regex_match(words[at], flag, flag_of_command)) continue;
    const std::regex shown("(^|[^a-z-])" + flag[1].str() + "($|[^a-z-])");
    if (!std::regex_search(help.out, shown)) return "no flag " + flag[1].str();
  }
  return "";
}

TEST(DocsCommands, ExistAndHaveTheFlagsTheyAreGiven) {
  const std::string tasks = run_shell("./do help").out;
  int calls = 0;
  std::vector<std::string> all = documents();
  for (std::string& document : folder_documents()) all.push_back(std::move(document));
  for (const std::string& document : all) {
    for (const std::string& line : command_lines(read_file((root() / document).string()))) {
      for (const std::vector<std::string>& words : calls_in(line)) {
        const std::string program = fs::path(words[0]).filename().string();
        if (words[0] == "./do" && words.size() > 1) {
          EXPECT_NE(tasks.find("\n  " + words[1]), std::string::npos) << document << ": " << line;
          ++calls;
        } else if (program == "tessera" && words.size() > 1 && words[1] != "COMMAND") {
          EXPECT_EQ(mistake_in(words), "") << document << ": " << line;
          ++calls;
        }
      }
    }
  }
  EXPECT_GT(calls, 200);
}

TEST(DocsCommands, MistakesAreFound) {
  EXPECT_EQ(mistake_in({"tessera", "run", "model.onnx", "--input", "x.npy"}), "no flag --input");
  EXPECT_EQ(mistake_in({"tessera", "runn", "model.onnx"}), "no such command");
  EXPECT_EQ(mistake_in({"tessera", "db", "list", "--db", "a.db"}), "");
  EXPECT_EQ(mistake_in({"tessera", "fleet", "status", "--watch"}), "");
  EXPECT_EQ(mistake_in({"tessera", "fleet", "drain", "--watch"}), "no flag --watch");
  EXPECT_EQ(mistake_in({"tessera", "fleet", "statues"}), "no such command");
}

}  // namespace
}  // namespace tessera::cli
