// The documents cannot rot: every ```console block is run again and must print what it shows, every
// relative link must lead somewhere, every example schedule must compute the right numbers.
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/cli/documents.h"
#include "tests/cli/model_files.h"
#include "tests/cli/process.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// Text below the IR depends on the version of LLVM.
bool comparable(const std::string& command) {
  if (TESSERA_DOCS_LLVM) return true;
  return command.find("--stage asm") == std::string::npos &&
         command.find("--stage llvm") == std::string::npos;
}

// `$ command` lines of a console block are followed by what the command prints, stderr after
// stdout.
std::string printed(const std::string& command) {
  const Finished result = run_shell(command);
  std::string text = result.out + result.err;
  if (!text.empty() && text.back() != '\n') text += '\n';
  return text;
}

struct Rerun {
  std::string text;  // the document with fresh outputs
  int left_out = 0;  // commands whose output depends on an LLVM that is not the documents'
};

Rerun rerun(const std::string& document) {
  Rerun result;
  std::stringstream lines(document);
  bool console = false, replaced = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) {
      console = !console && line == "```console";
      replaced = false;
    }
    if (console && line.starts_with("$ ")) {
      const std::string command = line.substr(2);
      replaced = comparable(command);
      result.text += line + "\n";
      if (replaced) result.text += printed(command);
      result.left_out += replaced ? 0 : 1;
    } else if (!console || !replaced) {
      result.text += line + "\n";
    }
  }
  return result;
}

std::string first_difference(const std::string& got, const std::string& want) {
  std::stringstream a(got), b(want);
  std::string x, y;
  for (int line = 1;; ++line) {
    const bool more_a = static_cast<bool>(std::getline(a, x));
    const bool more_b = static_cast<bool>(std::getline(b, y));
    if (!more_a && !more_b) return "";
    if (x != y || more_a != more_b) {
      return fmt::format("line {}\n  printed: {}\n  shown:   {}", line, x, y);
    }
  }
}

class Document : public ::testing::TestWithParam<std::string> {};

TEST_P(Document, ShowsWhatItsCommandsPrint) {
  const fs::path file = root() / GetParam();
  const std::string text = read_file(file.string());
  const Rerun fresh = rerun(text);
  if (std::getenv("TESSERA_UPDATE_GOLDEN")) {
    std::ofstream(file, std::ios::binary) << fresh.text;
    return;
  }
  EXPECT_EQ(fresh.text, text) << GetParam() << ": " << first_difference(fresh.text, text)
                              << "\nreview and refresh with TESSERA_UPDATE_GOLDEN=1";
  if (fresh.left_out > 0 && !HasFailure()) {
    GTEST_SKIP() << fresh.left_out
                 << " commands show code of LLVM 19.1, which this build does not use";
  }
}

// What links call the headings of a document: "## f32, f16 and i8" is f32-f16-and-i8.
std::set<std::string> anchors(const std::string& document) {
  std::set<std::string> out;
  std::stringstream lines(document);
  bool code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    if (code || !line.starts_with("#")) continue;
    std::string anchor;
    for (const char c : line.substr(line.find(' ') + 1)) {
      const auto u = static_cast<unsigned char>(c);
      if (std::isalnum(u) || c == '-' || c == '_' || u >= 0x80)
        anchor += static_cast<char>(std::tolower(u));
      if (c == ' ') anchor += '-';
    }
    out.insert(anchor);
  }
  return out;
}

// Code may have what looks like a link: [&](int x).
std::string without_blocks(const std::string& document) {
  std::string out;
  std::stringstream lines(document);
  bool code = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("```")) code = !code;
    if (!code) out += line + "\n";
  }
  return out;
}

void expect_links_lead_somewhere(const std::string& document) {
  const fs::path file = root() / document;
  const std::string text = without_blocks(read_file(file.string()));
  for (std::size_t at = text.find("]("); at != std::string::npos; at = text.find("](", at + 1)) {
    const std::string link = text.substr(at + 2, text.find(')', at) - at - 2);
    if (link.starts_with("http")) continue;
    const std::size_t hash = link.find('#');
    const std::string name = link.substr(0, hash);
    const fs::path target = name.empty() ? file : file.parent_path() / name;
    EXPECT_TRUE(fs::exists(target)) << document << " links to " << link;
    if (hash == std::string::npos || target.extension() != ".md") continue;
    EXPECT_TRUE(anchors(read_file(target.string())).contains(link.substr(hash + 1)))
        << document << " links to " << link;
  }
}

TEST_P(Document, LinksLeadSomewhere) { expect_links_lead_somewhere(GetParam()); }

TEST(Docs, LinksOfFoldersLeadSomewhere) {
  const std::vector<std::string> found = folder_documents();
  EXPECT_GT(found.size(), 30u);
  for (const std::string& document : found) expect_links_lead_somewhere(document);
}

INSTANTIATE_TEST_SUITE_P(Docs, Document, ::testing::ValuesIn(documents()),
                         [](const auto& document) {
                           std::string name = document.param.substr(0, document.param.size() - 3);
                           for (char& c : name)
                             c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
                           return name;
                         });

TEST(Docs, TheTourAndTheReferencesRunCommands) {
  for (const char* name :
       {"docs/design/tour.md", "docs/reference/schedules.md", "docs/reference/operations.md",
        "docs/reference/targets.md", "docs/guide/models.md"}) {
    const std::string text = read_file((root() / name).string());
    EXPECT_NE(text.find("```console\n$ "), std::string::npos) << name;
  }
}

TEST(Docs, EveryStepIsInTheReference) {
  const std::string reference = read_file((root() / "docs/reference/schedules.md").string());
  const std::string file = write_file("schedule.txt", "nonsense\n");
  const std::string error = run({"show", "--op", "matmul:M=4,N=4,K=4", "--schedule", file}).err;
  const std::string marker = "steps are: ";
  ASSERT_NE(error.find(marker), std::string::npos) << error;
  std::stringstream verbs(error.substr(error.find(marker) + marker.size()));
  int count = 0;
  for (std::string verb; verbs >> verb; ++count) {
    EXPECT_NE(reference.find("`" + verb + " "), std::string::npos) << verb << " is not described";
  }
  EXPECT_GE(count, 17);
}

// Each file names its operation in a line `# op: SPEC`.
TEST(Docs, EveryExampleScheduleIsRight) {
  int examples = 0;
  for (const fs::directory_entry& f : fs::directory_iterator(root() / "docs/reference/examples")) {
    if (f.path().extension() != ".txt") continue;
    const std::string text = read_file(f.path().string());
    const std::string marker = "# op: ";
    const std::size_t at = text.find(marker);
    ASSERT_NE(at, std::string::npos) << f.path();
    const std::string op =
        text.substr(at + marker.size(), text.find('\n', at) - at - marker.size());
    if (f.path().filename().string().starts_with("gpu-")) {  // run where a device is: kernel_tests
      const Finished ptx = run({"show", "--op", op, "--schedule", f.path().string(), "--target",
                                "h200", "--stage", "ptx"});
      EXPECT_EQ(ptx.code, 0) << f.path() << ptx.err;
      EXPECT_NE(ptx.out.find(".visible .entry"), std::string::npos) << f.path() << ptx.out;
      continue;
    }
    const Finished result = run(quick_bench({"--op", op, "--schedule", f.path().string()}));
    EXPECT_EQ(result.code, 0) << f.path() << result.err;
    EXPECT_NE(result.out.find("verified"), std::string::npos) << f.path() << result.out;
    ++examples;
  }
  EXPECT_GE(examples, 5);
}

// The models are binary files: what is in them is written here, and only here.
TEST(Docs, ExampleModelsAreThoseOfTheTests) {
  for (const auto& [name, model] :
       {std::pair("symbolic", symbolic_model()), std::pair("unsupported", unsupported_model()),
        std::pair("nonzero", nonzero_model())}) {
    const fs::path file = root() / "docs/reference/examples" / (std::string(name) + ".onnx");
    if (std::getenv("TESSERA_UPDATE_GOLDEN")) {
      ASSERT_TRUE(onnx::save_model(model, file.string()).ok());
    }
    EXPECT_EQ(read_file(file.string()), *onnx::serialize_model(model)) << file;
  }
}

}  // namespace
}  // namespace tessera::cli
