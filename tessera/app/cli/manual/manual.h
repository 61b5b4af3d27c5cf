// Texts made of the descriptions of commands: manual pages and completions of shells.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/app/cli/common/flags.h"

namespace tessera::cli {

// What the help says of a flag or a position.
struct FlagDescription {
  std::vector<std::string> names;  // "-o", "--output"; of a position its name
  std::string help;
  std::vector<std::string> words;    // that the value must be one of; empty: any
  std::vector<std::string> offered;  // words that it may be, among others
  bool takes_value = false, is_position = false, is_required = false, is_list = false;
};

struct CommandDescription {
  std::string name, description, footer;
  std::vector<FlagDescription> flags;
  std::vector<CommandDescription> commands;  // but hidden ones, by name
};

// Of the program whose command line was parsed.
CommandDescription describe_program();

// One page a command, subcommands included: file name ("tessera-db-list.1") and troff text.
std::vector<std::pair<std::string, std::string>> manual_pages(const CommandDescription& program,
                                                              const std::string& version);

std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);
std::string fish_completion(const CommandDescription& program);

void add_completion(Flags& app, std::function<int()>* run);
void add_manual(Flags& app, std::function<int()>* run);

}  // namespace tessera::cli
