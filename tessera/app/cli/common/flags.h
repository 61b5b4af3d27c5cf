// Commands and their flags. CLI11 stands behind it: its header costs seconds in every file that
// includes it, so one file does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
class Validator;
}  // namespace CLI

namespace tessera::cli {

// What a value must be; how it is described in the help, and what is said of one that is not.
class Check {
 public:
  explicit Check(const CLI::Validator& validator);
  const CLI::Validator& validator() const { return *validator_; }

 private:
  std::shared_ptr<const CLI::Validator> validator_;
};

Check range(int low, int high);
Check range(double low, double high);
Check positive();
Check non_negative();
Check one_of(const std::vector<std::string>& words);
Check existing_file();
Check existing_folder();
Check operator|(const Check& a, const Check& b);

class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* check(const Check& check);
  Option* delimiter(char c);
  Option* expected(int count);
  Option* allow_extra_args(bool allow);
  Option* needs(const Option* other);
  Option* excludes(const Option* other);
  Option* excludes(const std::string& name);
  Option* hide_default();  // where the help says it in words
  // Words that shells complete, among other values.
  Option* offers(std::vector<std::string> (*words)());

  std::size_t count() const;  // how often the user gave it

 private:
  CLI::Option* option_;
};

// Options and subcommands belong to the flags that they were added to and live as long.
class Flags {
 public:
  Flags(const std::string& description, const std::string& name);
  ~Flags();
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;

  // The types of values are those instantiated in flags.cc. A name without dashes is a position.
  // The help shows the value that it has now as the default.
  template <typename T>
  Option* add_option(const std::string& names, T& value, const std::string& help = "");
  // A span of time in seconds, written as 90s, 5m or 1h30m; none where zero means no limit.
  enum class Zero : std::uint8_t { kRefused, kNoLimit };
  Option* add_duration(const std::string& names, double& seconds, const std::string& help,
                       Zero zero = Zero::kRefused);
  Option* add_flag(const std::string& names, bool& value, const std::string& help = "");
  Flags* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand(std::size_t least, std::size_t most);

  void footer(const std::string& text);
  void version(const std::string& text);  // what --version prints
  void hide();                            // from the help
  void leave_help();                      // --help is no flag of this command
  void prefix_command();                  // the rest of the line is `remaining`

  // What the flag `now` of this command was called: taken as it, with a line that says so.
  void renamed(const std::string& before, const std::string& now);

  void callback(std::function<void()> run);  // when the user chose it
  std::vector<std::string> remaining() const;

  // Nothing when a command was chosen; else the help or the reason was printed, and this is the
  // code to leave with.
  std::optional<int> parse(int argc, char** argv);
  std::optional<int> parse(std::vector<std::string> words);

 private:
  struct State;
  explicit Flags(CLI::App* app);
  void take_renamed(std::vector<std::string>* words) const;

  CLI::App* app_;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::cli
