// A database as JSON lines, for exchange: sessions, tasks, then records, one object a line.
#pragma once

#include <functional>
#include <string>

#include "tessera/trials/record/database.h"
#include "tessera/trials/record/log_file.h"
#include "tessera/trials/record/row.h"

namespace tessera::record {

// Calls `write` with each line. kAnsor and kAutotvm write the records of that format alone, as the
// foreign programs do. Returns the number of records.
Result<std::int64_t> export_lines(const Database& database, LogFormat format,
                                  const std::function<Result<void>(const std::string&)>& write);

struct Imported {
  LogFormat format = LogFormat::kTessera;
  std::int64_t records = 0, good = 0, tasks = 0;
  std::int64_t skipped = 0;  // of the file's, in the database from an earlier import
  bool outdated = false;     // a database of an older program (Database::is_outdated())
};

// An SQLite file or the URL of a server, not lines of text.
bool is_database(const std::string& place);
bool is_same_place(const std::string& a, const std::string& b);
// That there is such a file, before anything is made for what it holds.
Result<void> check_importable(const std::string& path);
// That it is a database that can be read.
Result<void> check_database(const std::string& place);

// Adds what the file holds, whatever its format, in batches; each line that cannot be read is an
// error that names it, and the batches before it stay. An import of the same file that was stopped
// goes on where it ended. `path` may be a database, too: sessions that are here already gain what
// is new in them. `progress` gets the number of records so far.
Result<Imported> import_file(Database& database, const std::string& path,
                             const std::function<void(std::int64_t)>& progress = {});

}  // namespace tessera::record
