// A machine as a file: what it is and what it was measured to do (`tessera machine fit`).
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/machine/target/target.h"

namespace tessera::target {

struct MachineRow {
  Target target;
  std::map<std::string, std::string, std::less<>> sources;  // by rate: the command of the number
};

// The shipped row of a target.
MachineRow shipped_row(const Target& target);

std::string to_json(const MachineRow& row);
// Refuses, naming `where`, whatever is not a row of a machine that code can be made for.
Result<MachineRow> machine_row_from_json(std::string_view text, std::string_view where);
Result<MachineRow> read_machine_row(const std::string& path);

// Rows of this user: NAME.json in tessera/machines/ of $XDG_CONFIG_HOME or ~/.config. The folder is
// empty where the environment names no home.
std::string user_rows_folder();
std::vector<std::string> user_row_names();  // sorted
std::string user_row_path(std::string_view name);
// What `name` may mean besides a machine of the table: a path that ends in .json, or a row of this
// user.
bool names_row(std::string_view name);
Result<MachineRow> find_row(std::string_view name);

// The target with the rates of this user's row of that name (host, cuda, opencl), if there is one
// and it is of the same machine.
Result<Target> with_user_rates(Target target, std::string_view name);

}  // namespace tessera::target
