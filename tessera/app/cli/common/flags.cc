#include "tessera/app/cli/common/flags.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <sstream>

#include <CLI/CLI.hpp>
#include <fmt/ranges.h>

#include "tessera/app/cli/common/colour.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/manual/manual.h"
#include "tessera/support/duration.h"
#include "tessera/support/nearest_name.h"

namespace tessera::cli {

Check::Check(const CLI::Validator& validator)
    : validator_(std::make_shared<CLI::Validator>(validator)) {}

Check range(int low, int high) { return Check(CLI::Range(low, high)); }
Check range(double low, double high) { return Check(CLI::Range(low, high)); }
Check non_negative() { return Check(CLI::NonNegativeNumber); }
Check one_of(const std::vector<std::string>& words) { return Check(CLI::IsMember(words)); }
Check existing_file() { return Check(CLI::ExistingFile); }
Check existing_folder() { return Check(CLI::ExistingDirectory); }

// The one of CLI11 names the largest double.
Check positive() {
  const auto test = [](std::string& text) {
    double value = 0;
    const bool above = CLI::detail::lexical_cast(text, value) && value > 0;
    return above ? std::string() : fmt::format("{} is not a number above 0", text);
  };
  return Check(CLI::Validator(test, "POSITIVE"));
}

// CLI11 tells of both as "(...) OR (...)".
Check operator|(const Check& a, const Check& b) {
  CLI::Validator either = a.validator() | b.validator();
  either.operation([a = a.validator(), b = b.validator()](std::string& text) {
    const std::string first = a(text);
    const std::string second = first.empty() ? "" : b(text);
    return second.empty() ? second : fmt::format("{}, and {}", first, second);
  });
  return Check(either);
}

Option* Option::required() {
  option_->required();
  return this;
}

Option* Option::check(const Check& check) {
  option_->check(check.validator());
  return this;
}

Option* Option::delimiter(char c) {
  option_->delimiter(c);
  return this;
}

Option* Option::expected(int count) {
  option_->expected(count);
  return this;
}

Option* Option::allow_extra_args(bool allow) {
  option_->allow_extra_args(allow);
  return this;
}

Option* Option::needs(const Option* other) {
  option_->needs(other->option_);
  return this;
}

Option* Option::excludes(const Option* other) {
  option_->excludes(other->option_);
  return this;
}

Option* Option::excludes(const std::string& name) {
  option_->excludes(name);
  return this;
}

Option* Option::hide_default() {
  option_->default_str("");
  return this;
}

std::size_t Option::count() const { return option_->count(); }

namespace {

// By the option that offers them.
std::map<const CLI::Option*, std::vector<std::string> (*)()>& offered_words() {
  static std::map<const CLI::Option*, std::vector<std::string> (*)()> words;
  return words;
}

}  // namespace

Option* Option::offers(std::vector<std::string> (*words)()) {
  offered_words()[option_] = words;
  return this;
}

namespace {

constexpr std::size_t kHelpColumns = 80;

// The words of `text` in lines of at most `width` columns; a longer word has a line of its own.
std::string wrap(const std::string& text, std::size_t width) {
  std::string out;
  std::size_t column = 0;
  for (const std::string& word : CLI::detail::split(text, ' ')) {
    if (column > 0 && column + 1 + word.size() > width) {
      out += '\n';
      column = 0;
    }
    if (column > 0) out += ' ';
    column += (column > 0 ? 1 : 0) + word.size();
    out += word;
  }
  return out;
}

// CLI11 writes "INT:INT in [1 - 1024]", "TEXT:FILE" and "TEXT:{a,b}".
std::string value_name(const std::string& type) {
  const std::size_t colon = type.find(':');
  if (colon == std::string::npos) return type;
  const std::string check = type.substr(colon + 1);
  const bool tells = check[0] == '{' || check == "FILE" || check == "DIR";
  return tells ? check : type.substr(0, colon);
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::vector<std::string> names;
  for (const CLI::Option* option : options) names.push_back(option->get_name());
  std::sort(names.begin(), names.end());
  return fmt::format("{}", fmt::join(names, ", "));
}

// Help for a terminal of 80 columns; that of CLI11 has one line a flag, however long.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    if (option->get_type_size() == 0) return "";
    std::string out = " " + value_name(option->get_type_name());
    if (!option->get_default_str().empty()) out += "=" + option->get_default_str();
    if (option->get_expected_max() == CLI::detail::expected_max_vector_size) out += " ...";
    if (option->get_required()) out += " REQUIRED";
    return out;
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = option->get_description();
    if (!option->get_needs().empty()) text += " (needs " + names_of(option->get_needs()) + ")";
    if (!option->get_excludes().empty())
      text += " (not with " + names_of(option->get_excludes()) + ")";
    return wrap(text, kHelpColumns - get_column_width());
  }
  std::string make_subcommand(const CLI::App* sub) const override {
    std::stringstream out;
    CLI::detail::format_help(out, sub->get_name(),
                             wrap(sub->get_description(), kHelpColumns - get_column_width()),
                             get_column_width());
    return out.str();
  }
};

}  // namespace

struct Flags::State {
  std::unique_ptr<CLI::App> own;  // of a whole program
  std::deque<Option> options;
  std::deque<std::unique_ptr<Flags>> commands;
  std::map<std::string, std::string> renamed;  // flags of today by their former names
};

Flags::Flags(CLI::App* app) : app_(app), state_(std::make_unique<State>()) {}

Flags::Flags(const std::string& description, const std::string& name) : Flags(nullptr) {
  state_->own = std::make_unique<CLI::App>(description, name);
  state_->own->option_defaults()->always_capture_default();
  state_->own->formatter(std::make_shared<HelpFormatter>());
  app_ = state_->own.get();
}

Flags::~Flags() = default;

template <typename T>
Option* Flags::add_option(const std::string& names, T& value, const std::string& help) {
  CLI::Option* option = app_->add_option(names, value, help);
  if (option->get_default_str() == "[]") option->default_str("");  // an empty list
  // Else a flag with a list would swallow the model behind it.
  if (!option->get_positional()) option->allow_extra_args(false);
  return &state_->options.emplace_back(option);
}

#define TESSERA_OPTION(T) \
  template Option* Flags::add_option(const std::string&, T&, const std::string&)
TESSERA_OPTION(int);
TESSERA_OPTION(std::int64_t);
TESSERA_OPTION(std::uint64_t);
TESSERA_OPTION(std::optional<std::size_t>);
TESSERA_OPTION(double);
TESSERA_OPTION(std::string);
TESSERA_OPTION(std::vector<std::int64_t>);
TESSERA_OPTION(std::vector<std::string>);
#undef TESSERA_OPTION

Option* Flags::add_duration(const std::string& names, double& seconds, const std::string& help,
                            Zero zero) {
  const auto take = [&seconds, zero, names](const std::string& text) {
    if (zero == Zero::kNoLimit && text == "none") {
      seconds = 0;
      return;
    }
    const Result<double> parsed = parse_duration(text);
    if (!parsed.ok()) throw CLI::ValidationError(names, parsed.error().message);
    if (*parsed <= 0) {
      throw CLI::ValidationError(
          names, zero == Zero::kNoLimit ? "must be more than 0, or none" : "must be more than 0");
    }
    seconds = *parsed;
  };
  CLI::Option* option = app_->add_option_function<std::string>(names, take, help);
  option->type_name("TIME");
  option->default_str(seconds > 0 ? to_duration(seconds) : "");
  return &state_->options.emplace_back(option);
}

Option* Flags::add_flag(const std::string& names, bool& value, const std::string& help) {
  return &state_->options.emplace_back(app_->add_flag(names, value, help));
}

Flags* Flags::add_subcommand(const std::string& name, const std::string& description) {
  Flags* sub = new Flags(app_->add_subcommand(name, description));
  return state_->commands.emplace_back(sub).get();
}

void Flags::require_subcommand(std::size_t least, std::size_t most) {
  app_->require_subcommand(least, most);
}
void Flags::footer(const std::string& text) { app_->footer(text); }
void Flags::version(const std::string& text) { app_->set_version_flag("--version", text); }
void Flags::hide() { app_->group(""); }
void Flags::leave_help() { app_->set_help_flag(); }
void Flags::prefix_command() { app_->prefix_command(); }
void Flags::renamed(const std::string& before, const std::string& now) {
  state_->renamed[before] = now;
}
void Flags::callback(std::function<void()> run) { app_->callback(std::move(run)); }
std::vector<std::string> Flags::remaining() const { return app_->remaining(); }

namespace {

// Those that the help shows.
std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> out;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) out.push_back(sub->get_name());
  }
  return out;
}

// CLI11 answers a misspelt command with "A subcommand is required".
Result<void> check_command(const CLI::App& app, int argc, char** argv) {
  const CLI::App* at = &app;
  for (int i = 1; i < argc && argv[i][0] != '-' && at->get_require_subcommand_min() > 0; ++i) {
    const std::vector<const CLI::App*> subs = at->get_subcommands({});
    const auto found = std::find_if(subs.begin(), subs.end(),
                                    [&](const CLI::App* s) { return s->get_name() == argv[i]; });
    if (found == subs.end()) {
      const std::vector<std::string> names = command_names(*at);
      return make_error(ErrorCode::kInvalidArgument, "{}no command '{}'{} Commands: {}",
                        at == &app ? "" : at->get_name() + " has ", argv[i],
                        suggest_name(argv[i], names, "."), fmt::join(names, ", "));
    }
    at = *found;
  }
  return {};
}

// The command that the words before the mistake name, and how to write it.
struct Named {
  const CLI::App* app;
  std::string words;
};

Named named_command(const CLI::App& app) {
  Named out{&app, app.get_name()};
  while (!out.app->get_subcommands().empty()) {
    out.app = out.app->get_subcommands().front();
    out.words += " " + out.app->get_name();
  }
  return out;
}

std::string about_extras(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::vector<std::string> extras = app.remaining();
  for (const std::string& word : extras) {
    if (!word.starts_with("-")) continue;
    const std::string flag = word.substr(0, word.find('='));
    return fmt::format("no flag '{}'{}", flag, suggest_name(flag, names));
  }
  return fmt::format("unexpected argument '{}'", extras.empty() ? "" : extras.front());
}

// What CLI11 found, in the words of the other messages.
int explain(const CLI::App& app, const CLI::ParseError& e) {
  if (e.get_exit_code() == 0) return app.exit(e);  // --help, --version
  const Named command = named_command(app);
  const std::string help = fmt::format("`{} --help` explains", command.words);
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr) {
    fmt::print(stderr, "tessera: {} ({})\n", about_extras(*command.app), help);
  } else if (std::string_view(e.what()) == "A subcommand is required") {
    const std::size_t parents = command.words.rfind(' ');  // CLI11 adds the name itself
    fmt::print(
        stderr, "{}",
        command.app->help(parents == std::string::npos ? "" : command.words.substr(0, parents)));
  } else {
    fmt::print(stderr, "tessera: {} ({})\n", e.what(), help);
  }
  return kUsage;
}

const CLI::App* program = nullptr;  // whose command line was parsed last

// "TEXT:{so,a,obj}" is how CLI11 describes a value that is one of three.
std::vector<std::string> words_of(const std::string& type) {
  const std::size_t begin = type.find('{'), end = type.find('}', begin);
  if (end == std::string::npos) return {};
  return CLI::detail::split(type.substr(begin + 1, end - begin - 1), ',');
}

FlagDescription describe(const CLI::Option& option) {
  FlagDescription out;
  out.is_position = option.get_positional();
  if (out.is_position) out.names.push_back(option.get_name(true));
  for (const std::string& name : option.get_snames()) out.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.names.push_back("--" + name);
  out.help = option.get_description();
  out.words = words_of(option.get_type_name());
  if (const auto it = offered_words().find(&option); it != offered_words().end())
    out.offered = it->second();
  out.takes_value = option.get_items_expected_max() > 0;
  out.is_required = option.get_required();
  out.is_list = option.get_items_expected_max() > 1;
  return out;
}

CommandDescription describe(const CLI::App& app) {
  CommandDescription out{app.get_name(), app.get_description(), app.get_footer(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_group().empty()) out.flags.push_back(describe(*option));
  }
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (!sub->get_group().empty()) out.commands.push_back(describe(*sub));
  }
  std::sort(out.commands.begin(), out.commands.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return out;
}

}  // namespace

CommandDescription describe_program() {
  return program ? describe(*program) : CommandDescription{};
}

void Flags::take_renamed(std::vector<std::string>* words) const {
  const Flags* command = this;
  for (std::string& word : *words) {
    const auto sub = std::ranges::find_if(command->state_->commands, [&](const auto& flags) {
      return flags->app_->get_name() == word;
    });
    if (sub != command->state_->commands.end()) command = sub->get();
    const std::size_t end = std::min(word.find('='), word.size());
    const auto found = command->state_->renamed.find(word.substr(0, end));
    if (found == command->state_->renamed.end()) continue;
    print_warning(fmt::format("{} is called {} now", found->first, found->second));
    word.replace(0, end, found->second);
  }
}

std::optional<int> Flags::parse(int argc, char** argv) {
  program = app_;
  std::vector<std::string> words(argv, argv + argc);
  // `help COMMAND...` is `COMMAND... --help`.
  if (argc > 1 && words[1] == "help") {
    words.erase(words.begin() + 1);
    words.emplace_back("--help");
  }
  take_renamed(&words);
  std::vector<char*> texts;
  for (std::string& word : words) texts.push_back(word.data());
  const int count = static_cast<int>(texts.size());
  if (const Result<void> known = check_command(*app_, count, texts.data()); !known.ok())
    return report(known.error());
  try {
    app_->parse(count, texts.data());
  } catch (const CLI::ParseError& e) {
    return explain(*app_, e);
  }
  return std::nullopt;
}

std::optional<int> Flags::parse(std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());
  try {
    app_->parse(std::move(words));
  } catch (const CLI::ParseError& e) {
    return explain(*app_, e);
  }
  return std::nullopt;
}

}  // namespace tessera::cli
