// The database of a tuning or a collection, with a session begun in it.
#pragma once

#include <string>
#include <vector>

#include "tessera/driver/tune/tune_problem.h"
#include "tessera/measure/measurement.h"
#include "tessera/record/database.h"

namespace tessera::driver {

struct OpenedDatabase {
  record::Database database;
  std::int64_t session = 0;
};

// `session` with the names of the subjects, the version and the time filled in. kUnavailable with
// the path when the database cannot be had.
Result<OpenedDatabase> open_database(const std::string& path,
                                     const std::vector<TuneSubject>& subjects,
                                     record::SessionRow session);

// The texts under which records of this machine are kept, whatever number of cores they name; never
// empty.
Result<std::vector<std::string>> targets_of_machine(const record::Database& database,
                                                    const target::Target& target);

// What a measurement says of itself; the rest of the record is the caller's.
record::Record record_of(const measure::Measurement& m);

}  // namespace tessera::driver
