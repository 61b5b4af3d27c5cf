// tessera completion SHELL: what the shell needs to complete commands, flags and their words.
#include <algorithm>
#include <functional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/manual/manual.h"

namespace tessera::cli {
namespace {

using Visit = std::function<void(const std::vector<std::string>&, const CommandDescription&)>;

// Every command with the words that lead to it, the program's name not among them.
void for_each_command(const CommandDescription& command, std::vector<std::string> path,
                      const Visit& visit) {
  visit(path, command);
  path.emplace_back();
  for (const CommandDescription& sub : command.commands) {
    path.back() = sub.name;
    for_each_command(sub, path, visit);
  }
}

std::string replace_all(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

bool has_positions(const CommandDescription& command) {
  return std::any_of(command.flags.begin(), command.flags.end(),
                     [](const FlagDescription& f) { return f.is_position; });
}

std::vector<std::string> flag_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const FlagDescription& f : command.flags) {
    if (!f.is_position) names.insert(names.end(), f.names.begin(), f.names.end());
  }
  return names;
}

std::vector<std::string> command_names(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const CommandDescription& sub : command.commands) names.push_back(sub.name);
  return names;
}

std::string joined(const std::vector<std::string>& words, const char* between = " ") {
  return fmt::format("{}", fmt::join(words, between));
}

// Single quotes of fish end at a quote or a backslash only.
std::string fish_quoted(const std::string& text) {
  return "'" + replace_all(replace_all(text, "\\", "\\\\"), "'", "\\'") + "'";
}

std::string shell_quoted(const std::string& text) {
  return "'" + replace_all(text, "'", "'\\''") + "'";
}

// What _arguments shows between brackets, as part of a quoted word.
std::string zsh_explained(const std::string& text) {
  std::string out = replace_all(text, "\\", "\\\\");
  out = replace_all(replace_all(out, "[", "\\["), "]", "\\]");
  return replace_all(replace_all(out, ":", "\\:"), "'", "'\\''");
}

// What completes the values of a flag or position, as _arguments reads it.
std::string zsh_action(const FlagDescription& flag) {
  if (!flag.words.empty()) return fmt::format("({})", joined(flag.words));
  if (flag.offered.empty()) return "_files";
  return fmt::format("{{compadd -- {}; _files}}", replace_all(joined(flag.offered), ":", "\\:"));
}

std::string zsh_flag(const FlagDescription& f) {
  const std::string values = f.takes_value ? ":value:" + zsh_action(f) : "";
  if (f.is_position) {
    return fmt::format("'{}:{}:{}'", f.is_list ? "*" : "", zsh_explained(f.names[0]),
                       zsh_action(f));
  }
  const std::string help = zsh_explained(f.help);
  if (f.names.size() == 1)
    return fmt::format("'{}{}[{}]{}'", f.is_list ? "*" : "", f.names[0], help, values);
  return fmt::format("'({})'{{{}}}'[{}]{}'", joined(f.names), joined(f.names, ","), help, values);
}

}  // namespace

std::string bash_completion(const CommandDescription& program) {
  std::vector<std::string> paths;
  std::string cases;
  for_each_command(program, {}, [&](const auto& path, const CommandDescription& command) {
    const std::string name = joined(path);
    if (!path.empty()) paths.push_back(shell_quoted(name));
    cases += fmt::format("    {})\n      flags={}\n", shell_quoted(name),
                         shell_quoted(joined(flag_names(command))));
    if (!command.commands.empty())
      cases += fmt::format("      commands={}\n", shell_quoted(joined(command_names(command))));
    std::vector<std::string> any;
    std::string values;
    for (const FlagDescription& f : command.flags) {
      if (f.is_position && !f.offered.empty())
        cases += fmt::format("      offered={}\n", shell_quoted(joined(f.offered)));
      if (f.is_position || !f.takes_value) continue;
      if (!f.offered.empty()) {
        values += fmt::format("        {}) offered={} files=1 ;;\n", joined(f.names, " | "),
                              shell_quoted(joined(f.offered)));
      } else if (f.words.empty()) {
        any.insert(any.end(), f.names.begin(), f.names.end());
      } else {
        values += fmt::format("        {}) words={} ;;\n", joined(f.names, " | "),
                              shell_quoted(joined(f.words)));
      }
    }
    if (!any.empty())
      values += fmt::format("        {}) offered= files=1 ;;\n", joined(any, " | "));
    if (!values.empty()) cases += fmt::format("      case $prev in\n{}      esac\n", values);
    cases += "      ;;\n";
  });
  return fmt::format(
      R"(# bash completion of {0}; written by `{0} completion bash`.
_{0}() {{
  local cur=${{COMP_WORDS[COMP_CWORD]}} prev=${{COMP_WORDS[COMP_CWORD - 1]}}
  local path='' next i flags='' commands='' words='' files='' offered='' typed=$cur
  for ((i = 1; i < COMP_CWORD; ++i)); do
    next=${{path:+$path }}${{COMP_WORDS[i]}}
    case $next in
      {1}) path=$next ;;
      *) break ;;
    esac
  done
  case $path in
{2}  esac
  if [ -n "$words" ]; then
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
  elif [ -z "$files" ] && [[ $cur == -* ]]; then
    COMPREPLY=($(compgen -W "$flags" -- "$cur"))
  elif [ -z "$files" ] && [ -n "$commands" ]; then
    COMPREPLY=($(compgen -W "$commands" -- "$cur"))
  else
    # Bash takes "zoo:mlp" for three words.
    if [ "$cur" = : ]; then typed=$prev:; fi
    if [ "$prev" = : ]; then typed=${{COMP_WORDS[COMP_CWORD - 2]}}:$cur; fi
    COMPREPLY=($(compgen -W "$offered" -- "$typed"))
    if [ "$typed" != "$cur" ]; then
      COMPREPLY=("${{COMPREPLY[@]#*:}}")
    elif [ -z "${{COMPREPLY[*]}}" ]; then
      compopt -o filenames 2>/dev/null
      COMPREPLY=($(compgen -f -- "$cur"))
    else
      COMPREPLY+=($(compgen -f -- "$cur"))
    fi
  fi
}}
complete -F _{0} {0}
)",
      program.name, joined(paths, " | "), cases);
}

std::string zsh_completion(const CommandDescription& program) {
  std::string out = fmt::format("#compdef {0}\n# Written by `{0} completion zsh`.\n", program.name);
  for_each_command(program, {}, [&](const auto& path, const CommandDescription& command) {
    const std::string function =
        joined({"_" + program.name, joined(path, "_")}, path.empty() ? "" : "_");
    out += fmt::format("\n{}() {{\n", function);
    std::string flags;
    for (const FlagDescription& f : command.flags) flags += " \\\n    " + zsh_flag(f);
    if (command.commands.empty()) {
      out += fmt::format("  _arguments -s{}\n}}\n", flags);
      return;
    }
    std::string list, calls;
    for (const CommandDescription& sub : command.commands) {
      list += fmt::format("    '{}:{}'\n", sub.name, replace_all(sub.description, "'", "'\\''"));
      calls += fmt::format("        {0}) {1}_{0} ;;\n", sub.name, function);
    }
    out += fmt::format(R"(  local curcontext="$curcontext" state line
  local -a commands
  commands=(
{}  )
  _arguments -C{} \
    '1:command:->command' '*::argument:->rest'
  case $state in
    command) _describe command commands ;;
    rest)
      case $line[1] in
{}      esac
      ;;
  esac
}}
)",
                       list, flags, calls);
  });
  return out + fmt::format("\ncompdef _{0} {0}\n", program.name);
}

std::string fish_completion(const CommandDescription& program) {
  std::string out = fmt::format(
      R"(# fish completion of {0}; written by `{0} completion fish`.
function __{0}_at -d 'The command line begins with these commands'
    set -l words (commandline -opc)
    test (count $words) -gt (count $argv); or return 1
    for i in (seq (count $argv))
        test $words[(math $i + 1)] = $argv[$i]; or return 1
    end
end
function __{0}_needs -d 'It has these commands and nothing else yet'
    set -l words (commandline -opc)
    test (count $words) -eq (math (count $argv) + 1); and __{0}_at $argv
end
complete -c {0} -f
)",
      program.name);
  for_each_command(program, {}, [&](const auto& path, const CommandDescription& command) {
    const std::string words = path.empty() ? "" : " " + joined(path);
    const std::string begin = fmt::format("complete -c {} -n '__{}_", program.name, program.name);
    for (const CommandDescription& sub : command.commands) {
      out += fmt::format("{}needs{}' -a {} -d {}\n", begin, words, sub.name,
                         fish_quoted(sub.description));
    }
    const char* test = command.commands.empty() ? "at" : "needs";
    if (has_positions(command)) out += fmt::format("{}{}{}' -F\n", begin, test, words);
    for (const FlagDescription& f : command.flags) {
      if (f.is_position && !f.offered.empty()) {
        out += fmt::format("{}{}{}' -a {}\n", begin, test, words, fish_quoted(joined(f.offered)));
      }
      if (f.is_position) continue;
      out += fmt::format("{}{}{}'", begin, test, words);
      for (const std::string& name : f.names)
        out += name.rfind("--", 0) == 0 ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (f.takes_value && f.words.empty()) out += " -r -F";
      if (!f.offered.empty()) out += " -a " + fish_quoted(joined(f.offered));
      if (f.takes_value && !f.words.empty()) out += " -x -a " + fish_quoted(joined(f.words));
      out += fmt::format(" -d {}\n", fish_quoted(f.help));
    }
  });
  return out;
}

void add_completion(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("completion", "Print completions for a shell");
  sub->footer(
      "Examples:\n  source <(tessera completion bash)\n"
      "  tessera completion zsh > ~/.zfunc/_tessera\n"
      "  tessera completion fish > ~/.config/fish/completions/tessera.fish\n"
      "Installations have them in place already.");
  const auto shell = std::make_shared<std::string>();
  sub->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  sub->callback([shell, run] {
    *run = [shell]() -> int {
      const CommandDescription program = describe_program();
      fmt::print("{}", *shell == "bash"  ? bash_completion(program)
                       : *shell == "zsh" ? zsh_completion(program)
                                         : fish_completion(program));
      return kOk;
    };
  });
}

}  // namespace tessera::cli
