// The design pages and the READMEs of folders name files and symbols that exist.
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace tessera {
namespace {

namespace fs = std::filesystem;

const fs::path& root() {
  static const fs::path path = TESSERA_ROOT;
  return path;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The files of the repository that pages speak of, and every word in the sources among them.
struct Tree {
  std::set<std::string> files, words;  // files by their names without folders
};

void add_words(const std::string& text, std::set<std::string>* words) {
  std::string word;
  for (const char c : text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      word += c;
    } else if (!word.empty()) {
      words->insert(std::move(word));
      word.clear();
    }
  }
}

const Tree& tree() {
  static const Tree found = [] {
    Tree out;
    for (const char* folder : {"tessera", "tests", "peers"}) {
      for (const fs::directory_entry& f : fs::recursive_directory_iterator(root() / folder)) {
        if (!f.is_regular_file()) continue;
        out.files.insert(f.path().filename().string());
        const std::string kind = f.path().extension().string();
        if (kind == ".h" || kind == ".cc" || kind == ".c" || kind == ".py")
          add_words(read(f.path()), &out.words);
      }
    }
    return out;
  }();
  return found;
}

// Inline code of a page, outside of blocks, that no reader has to fill in.
std::vector<std::string> inline_code(const std::string& page) {
  static const std::regex code("`([^`]+)`"), block("```[^`]*```");
  const std::string prose = std::regex_replace(page, block, "");
  std::vector<std::string> out;
  for (std::sregex_iterator it(prose.begin(), prose.end(), code), end; it != end; ++it) {
    const std::string text = (*it)[1];
    if (text.find_first_of("<> ") == std::string::npos) out.push_back(text);
  }
  return out;
}

bool is_file(const std::string& text) {
  static const std::regex file("[A-Za-z0-9_./-]+\\.(h|cc|c|md|txt|sh|py)");
  return std::regex_match(text, file);
}

// The groups of tessera/, and the libraries in them.
std::vector<fs::path> folders() {
  std::vector<fs::path> out;
  for (const fs::directory_entry& group : fs::directory_iterator(root() / "tessera")) {
    if (!group.is_directory()) continue;
    out.push_back(group.path());
    for (const fs::directory_entry& library : fs::directory_iterator(group)) {
      if (library.is_directory()) out.push_back(library.path());
    }
  }
  return out;
}

// By its whole path, or beginning with its library.
bool file_exists(const std::string& text) {
  if (text.find('/') == std::string::npos) return tree().files.contains(text);
  if (fs::exists(root() / text)) return true;
  const std::vector<fs::path> all = folders();
  return std::any_of(all.begin(), all.end(),
                     [&](const fs::path& f) { return fs::exists(f.parent_path() / text); });
}

// "decide::Walk", "kSteps", "DagBuilder", "make_operation": the words that code must have.
std::vector<std::string> words_of_symbol(const std::string& text) {
  static const std::regex symbol(
      "(([A-Za-z_]\\w*::)+[A-Za-z_]\\w*|k[A-Z]\\w+|[A-Z][a-z]+[A-Z]\\w*|[a-z]+(_[a-z0-9]+)+)");
  if (!std::regex_match(text, symbol)) return {};
  std::set<std::string> words;
  add_words(text, &words);
  return {words.begin(), words.end()};
}

std::vector<fs::path> pages() {
  std::vector<fs::path> out;
  for (const fs::directory_entry& f : fs::directory_iterator(root() / "docs/design")) {
    if (f.path().extension() == ".md") out.push_back(f.path());
  }
  return out;
}

TEST(DesignPages, NameFilesThatExist) {
  int named = 0;
  for (const fs::path& page : pages()) {
    for (const std::string& text : inline_code(read(page))) {
      if (!is_file(text)) continue;
      ++named;
      EXPECT_TRUE(file_exists(text)) << page.filename() << " names " << text;
    }
  }
  EXPECT_GE(named, 100);
}

TEST(DesignPages, NameSymbolsThatExist) {
  int named = 0;
  for (const char* page : {"extending", "decisions", "overview", "glossary", "testing"}) {
    const std::string name = std::string("docs/design/") + page + ".md";
    for (const std::string& text : inline_code(read(root() / name))) {
      if (is_file(text)) continue;
      for (const std::string& word : words_of_symbol(text)) {
        ++named;
        EXPECT_TRUE(tree().words.contains(word)) << name << " names " << text;
      }
    }
  }
  EXPECT_GE(named, 80);
}

// Names without an ending are files of the folder, folders or words of the code.
TEST(FolderReadmes, NameWhatExists) {
  static const std::regex bare("[a-z][a-z0-9]*(_[a-z0-9]+)*");
  int named = 0;
  for (const fs::path& folder : folders()) {
    const fs::path readme = folder / "README.md";
    if (!fs::exists(readme)) continue;
    for (const std::string& text : inline_code(read(readme))) {
      if (is_file(text)) {
        EXPECT_TRUE(fs::exists(folder / text) || file_exists(text)) << readme << " names " << text;
      } else if (std::regex_match(text, bare)) {
        EXPECT_TRUE(tree().files.contains(text + ".h") || tree().files.contains(text + ".cc") ||
                    tree().files.contains(text + ".c") || file_exists("tessera/" + text) ||
                    tree().words.contains(text))
            << readme << " names " << text;
      } else {
        for (const std::string& word : words_of_symbol(text)) {
          EXPECT_TRUE(tree().words.contains(word)) << readme << " names " << text;
        }
      }
      ++named;
    }
  }
  EXPECT_GE(named, 300);
}

// Float types are rows of a table: other files name them only where they are read or written.
TEST(DesignPages, SendWhoAddsATypeWhereTypesAreNamed) {
  static const std::regex named("DType::k(F16|BF16|F8|I8)|\"bf16\"");
  const std::string page = read(root() / "docs/design/extending.md");
  const std::size_t from = page.find("## Add an element type");
  ASSERT_NE(from, std::string::npos);
  int files = 0;
  for (const std::string& text : inline_code(page.substr(from, page.find("\n## ", from) - from))) {
    if (!is_file(text)) continue;
    ++files;
    EXPECT_TRUE(std::regex_search(read(root() / text), named)) << text << " names no type";
  }
  EXPECT_GE(files, 8);
}

TEST(DesignPages, TheTestsTellSymbolsFromOtherCode) {
  EXPECT_EQ(words_of_symbol("decide::Walk"), (std::vector<std::string>{"Walk", "decide"}));
  EXPECT_EQ(words_of_symbol("kSteps"), std::vector<std::string>{"kSteps"});
  EXPECT_TRUE(words_of_symbol("--strict").empty());
  EXPECT_FALSE(file_exists("tessera/scheduling/lower/no_such_pass.cc"));
  EXPECT_FALSE(tree().words.contains(std::string("no_such") + "_symbol_anywhere"));
}

}  // namespace
}  // namespace tessera
