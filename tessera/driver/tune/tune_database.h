// The database of a tuning or a collection, with a session begun in it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/driver/tune/tune_problem.h"
#include "tessera/measure/measurer.h"
#include "tessera/record/record_store.h"

namespace tessera::driver {

struct OpenedStore {
  std::unique_ptr<record::RecordStore> store;
  std::int64_t session = 0;
};

// `session` with the names of the subjects, the version and the time filled in. kUnavailable with
// the path when the database cannot be had.
Result<OpenedStore> open_database(const std::string& path, const std::vector<TuneSubject>& subjects,
                                  record::SessionRow session);

// The texts under which records of this machine are kept, whatever number of cores they name; never
// empty.
Result<std::vector<std::string>> targets_of_machine(const record::RecordStore& store,
                                                    const target::Target& target);

// What a measurement of these steps says of itself; the rest of the record is the caller's.
record::Record record_of(const measure::Measurement& m, const std::string& schedule,
                         const measure::MachineState& machine);

}  // namespace tessera::driver
