// Measurements of schedules in any number and order, as the examples of a dataset.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tessera/learn/dataset/dataset_stream.h"
#include "tessera/learn/dataset/spill.h"
#include "tessera/trials/record/record.h"

namespace tessera::app {

// Measurements wait on disk; memory: some bytes for each pair of a task and a machine, and 32 for
// each measurement of the pair that is being written.
class MeasuredSpill {
 public:
  static Result<MeasuredSpill> create(const std::string& folder);

  // A calibration that is not known yet: measurements are corrected by it when they are written.
  std::uint32_t new_reference();
  void set_reference(std::uint32_t reference, double calibration_s);

  // Candidate, steps, outcome, seconds and calibration of the record; `reference` of
  // kNoReference: its time is right as it is.
  static constexpr std::uint32_t kNoReference = 0;
  Result<void> add(std::int32_t task, std::int32_t machine, const record::Record& record,
                   std::uint32_t reference);

  // Examples by task, machine and the first measurement of their schedule. Returns the number of
  // further measurements.
  Result<std::size_t> write(dataset::DatasetWriter* writer);

 private:
  struct Entry;      // as it is on disk
  struct Candidate;  // of one schedule, or a measurement of it
  explicit MeasuredSpill(dataset::Spill spill) : spill_(std::move(spill)) {}
  static Entry parse(std::string_view bytes);
  Candidate measured(const Entry& entry, std::uint32_t number) const;
  Candidate merge(const Candidate* begin, const Candidate* end) const;
  Result<std::size_t> write_pair(std::int32_t task, std::int32_t machine, std::size_t group,
                                 dataset::DatasetWriter* writer) const;

  dataset::Spill spill_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> groups_;  // task, machine
  std::vector<double> references_ = {0};
  std::map<std::string, std::uint32_t> outcome_numbers_;
  std::vector<std::string> outcomes_;
};

}  // namespace tessera::app
