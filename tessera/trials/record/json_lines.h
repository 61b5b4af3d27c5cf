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
};

// Adds what the file holds, whatever its format, in batches; each line that cannot be read is an
// error that names it, and the batches before it stay. An import of the same file that was stopped
// goes on where it ended. `progress` gets the number of records so far.
Result<Imported> import_file(Database& database, const std::string& path,
                             const std::function<void(std::int64_t)>& progress = {});

}  // namespace tessera::record
