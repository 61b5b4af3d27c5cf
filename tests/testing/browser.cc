#include "tests/testing/browser.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <unistd.h>

namespace tessera::testing {
namespace {

bool has_chromium() { return std::system("command -v chromium > /dev/null 2>&1") == 0; }

std::string output_of(const std::string& command) {
  std::string out;
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::array<char, 4096> block{};
  for (std::size_t n = 0; (n = std::fread(block.data(), 1, block.size(), pipe)) > 0;) {
    out.append(block.data(), n);
  }
  return ::pclose(pipe) == 0 ? out : "";
}

}  // namespace

std::optional<std::string> browse(const std::string& html, const std::string& flags) {
  if (!has_chromium()) return std::nullopt;
  std::string folder = (std::filesystem::temp_directory_path() / "tessera-page-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return "";
  std::ofstream(folder + "/page.html", std::ios::binary) << html;
  std::string dom = output_of(fmt::format(
      "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir='{0}/profile' "
      "{1} --dump-dom 'file://{0}/page.html' 2> '{0}/errors'",
      folder, flags));
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return dom;
}

std::string cut_off_script() {
  return R"(<script>
const lost = [];
const charts = document.querySelectorAll('svg.plot');
for (const svg of charts) {
  const box = svg.getBoundingClientRect();
  for (const text of svg.querySelectorAll('text')) {
    const at = text.getBoundingClientRect();
    if (at.left < box.left - 0.5 || at.right > box.right + 0.5 || at.top < box.top - 0.5 ||
        at.bottom > box.bottom + 0.5) lost.push(text.textContent);
  }
}
const found = document.createElement('p');
found.id = 'found';
found.textContent = ['charts ' + charts.length + ', cut off ' + lost.length, ...lost].join(' | ');
document.body.append(found);
</script>)";
}

std::string cut_off_texts(const std::string& document) {
  const std::string begin = "<p id=\"found\">";
  const std::size_t at = document.find(begin);
  if (at == std::string::npos) return "the script did not run";
  const std::size_t from = at + begin.size();
  return document.substr(from, document.find("</p>", from) - from);
}

}  // namespace tessera::testing
