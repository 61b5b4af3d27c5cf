// What the subcommands of `tessera db` share.
#pragma once

#include <string>
#include <vector>

#include "tessera/trials/record/database.h"

namespace tessera::cli {

struct DbArgs {
  std::string db;                       // empty: $TESSERA_DB, else tessera.db
  std::string task, target, subject;    // filters
  std::string output, format = "auto";  // export, import
  std::vector<std::string> files;       // import, diff
  int top = 5;
  bool json = false;
};

// The file that --db, else $TESSERA_DB, else the current folder names.
std::string database_path(const std::string& flag);

// Three digits and more, to tell near times apart; "-" for none.
std::string duration_text(double seconds);
// What record::Filter takes.
std::vector<std::string> targets_of(const DbArgs& args);

// Each returns an exit code.
int db_list(const DbArgs& args);
int db_explain(const DbArgs& args);
int db_diff(const DbArgs& args);
int db_export(const DbArgs& args);
int db_import(const DbArgs& args);

}  // namespace tessera::cli
