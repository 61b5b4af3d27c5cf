// What the subcommands of `tessera db` share.
#pragma once

#include <string>
#include <vector>

#include "tessera/trials/record/database.h"

namespace tessera::cli {

struct DbArgs {
  std::string db;                       // a file or a URL; empty: $TESSERA_DB, else tessera.db
  std::string task, target, subject;    // filters
  std::string output, format = "auto";  // export, import
  std::vector<std::string> files;       // import, diff, copy, merge
  std::string machine, role;            // prune; grant
  std::int64_t session = 0, older_days = 0;
  int top = 5;
  bool json = false, dry_run = false;
};

// What --db, else $TESSERA_DB, else the current folder names.
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
int db_copy(const DbArgs& args);
int db_merge(const DbArgs& args);
int db_migrate(const DbArgs& args);
int db_prune(const DbArgs& args);
int db_grant(const DbArgs& args);

}  // namespace tessera::cli
