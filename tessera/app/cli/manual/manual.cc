// tessera manual FOLDER: pages for man(1) and completions, laid out as below share/. The build runs
// it before an installation.
#include "tessera/app/cli/manual/manual.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

// A line of troff: nothing in it is a request or an escape, and dashes stay what is typed.
std::string troff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  if (!out.empty() && (out[0] == '.' || out[0] == '\'')) out = "\\&" + out;
  return out;
}

std::string upper(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string value_text(const FlagDescription& flag) {
  if (!flag.takes_value) return "";
  if (flag.words.empty()) return " \\fIVALUE\\fR";
  return " " + troff(fmt::format("{}", fmt::join(flag.words, "|")));
}

std::string synopsis(const std::string& path, const CommandDescription& command) {
  std::string out = fmt::format("\\fB{}\\fR [\\fIOPTIONS\\fR]", troff(path));
  if (!command.commands.empty()) out += " \\fICOMMAND\\fR";
  for (const FlagDescription& f : command.flags) {
    if (!f.is_position) continue;
    const std::string name = fmt::format("\\fI{}\\fR{}", troff(f.names[0]), f.is_list ? "..." : "");
    out += " " + (f.is_required ? name : "[" + name + "]");
  }
  return out;
}

std::string entry(const std::string& term, const std::string& text) {
  return fmt::format(".TP\n{}\n{}\n", term, troff(text));
}

std::string flags_text(const CommandDescription& command, bool positions) {
  std::string out;
  for (const FlagDescription& f : command.flags) {
    if (f.is_position != positions) continue;
    if (positions) {
      out += entry(fmt::format("\\fI{}\\fR", troff(f.names[0])), f.help);
      continue;
    }
    std::vector<std::string> names;
    for (const std::string& name : f.names) names.push_back("\\fB" + troff(name) + "\\fR");
    out += entry(fmt::format("{}{}", fmt::join(names, ", "), value_text(f)), f.help);
  }
  return out;
}

// As it is in the help, lines kept.
std::string notes(const std::string& footer) {
  if (footer.empty()) return "";
  std::string out = ".SH NOTES\n.nf\n";
  for (std::size_t begin = 0; begin < footer.size();) {
    const std::size_t end = std::min(footer.find('\n', begin), footer.size());
    out += troff(footer.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  return out + ".fi\n";
}

using Pages = std::vector<std::pair<std::string, std::string>>;

void add_pages(const std::string& path, const CommandDescription& command,
               const std::string& version, Pages* pages) {
  std::string page = path;
  std::replace(page.begin(), page.end(), ' ', '-');
  std::string text = fmt::format(".TH {} 1 \"\" \"{}\" \"Tessera\"\n", troff(upper(page)), version);
  text += fmt::format(".SH NAME\n{} \\- {}\n", troff(page), troff(command.description));
  text += fmt::format(".SH SYNOPSIS\n{}\n", synopsis(path, command));
  if (const std::string list = flags_text(command, true); !list.empty())
    text += ".SH ARGUMENTS\n" + list;
  const std::string options = flags_text(command, false);
  // Those of a program that it starts are printed by that program.
  text +=
      ".SH OPTIONS\n" + (options.empty() ? troff(path + " --help lists them.") + "\n" : options);
  if (!command.commands.empty()) text += ".SH COMMANDS\n";
  for (const CommandDescription& sub : command.commands) {
    text += entry(fmt::format("\\fB{}\\fR(1)", troff(page + "-" + sub.name)), sub.description);
  }
  text += notes(command.footer);
  pages->emplace_back(page + ".1", std::move(text));
  for (const CommandDescription& sub : command.commands)
    add_pages(path + " " + sub.name, sub, version, pages);
}

Result<void> write_below(const fs::path& file, const std::string& text) {
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  if (error) {
    return make_error(ErrorCode::kIo, "cannot make {}: {}", file.parent_path().string(),
                      error.message());
  }
  return write_file(file.string(), {text});
}

Result<void> write_manual(const CommandDescription& program, const fs::path& folder) {
  for (const auto& [name, text] : manual_pages(program, "tessera " TESSERA_VERSION))
    TESSERA_DO(write_below(folder / "man/man1" / name, text));
  TESSERA_DO(
      write_below(folder / "bash-completion/completions" / program.name, bash_completion(program)));
  TESSERA_DO(
      write_below(folder / "zsh/site-functions" / ("_" + program.name), zsh_completion(program)));
  return write_below(folder / "fish/vendor_completions.d" / (program.name + ".fish"),
                     fish_completion(program));
}

}  // namespace

Pages manual_pages(const CommandDescription& program, const std::string& version) {
  Pages pages;
  add_pages(program.name, program, version, &pages);
  return pages;
}

void add_manual(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("manual", "Write manual pages and completions below a folder");
  sub->hide();
  const auto folder = std::make_shared<std::string>();
  sub->add_option("FOLDER", *folder, "Laid out like share/ of an installation")->required();
  sub->callback([folder, run] {
    *run = [folder] {
      const Result<void> written = write_manual(describe_program(), *folder);
      return written.ok() ? static_cast<int>(kOk) : report(written.error());
    };
  });
}

}  // namespace tessera::cli
