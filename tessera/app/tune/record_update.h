// Tasks and records that older programs wrote, as this one writes them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "tessera/lang/te/canonical.h"
#include "tessera/learn/dataset/dataset.h"
#include "tessera/scheduling/space/space.h"
#include "tessera/trials/record/database.h"

namespace tessera::app {

// Tasks first, then their records.
class RecordUpdate {
 public:
  // With the canonical key and definition; a definition that cannot be read stays as it is.
  record::TaskRow task(const record::TaskRow& row);
  // Of a task that went through task(): its new key, candidate and steps in the new names. Where
  // the steps are missing they are those of the candidate, if today's space of its target has
  // every one of its decisions and, as far as the record has a digest, gives the steps of it.
  void record(record::Record* record);

 private:
  struct Known {
    te::Dag dag;  // as it was
    te::Canonical canonical;
    std::string key;
  };
  std::string steps_of(const Known& task, const record::Record& record);
  const space::Space* space_of(const Known& task, const std::string& target);

  std::map<std::string, Known> tasks_;  // by old key
  // The latest: records of a task come together.
  const Known* space_task_ = nullptr;
  std::string space_target_;
  std::optional<space::Space> space_;
};

// Once for a database of an older program; returns how many records changed.
Result<std::int64_t> bring_up_to_date(record::Database& database);

struct UpdatedDataset {
  dataset::Dataset dataset;
  std::size_t records = 0, without_steps = 0;  // before; dropped because their steps are not known
  std::size_t tasks = 0, merged = 0;           // before; that turned out to be another one
};
// A dataset with canonical tasks, and of each record the steps; those whose steps are not known are
// left out.
UpdatedDataset bring_up_to_date(const dataset::Dataset& dataset);

}  // namespace tessera::app
