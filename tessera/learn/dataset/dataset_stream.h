// The files of a dataset, example by example: memory for one shard, however many there are.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tessera/learn/dataset/dataset.h"

namespace tessera::dataset {

// Writes beside the folder and puts all in its place at the end.
class DatasetWriter {
 public:
  // kInvalidArgument: the folder exists and is not a dataset.
  static Result<DatasetWriter> create(const std::string& folder);
  DatasetWriter(DatasetWriter&&) noexcept;
  DatasetWriter& operator=(DatasetWriter&&) = delete;
  ~DatasetWriter();  // without finish(): nothing is left

  // Those of a task together.
  Result<void> add(const Example& example);
  // Machines, networks and tasks of `header`; its examples are not looked at.
  Result<void> finish(const Dataset& header);

  std::size_t examples() const;
  // A folder for files of the work, in which the dataset is made.
  const std::string& staging() const;

 private:
  struct Impl;
  explicit DatasetWriter(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

class DatasetReader {
 public:
  // Errors as load().
  static Result<DatasetReader> open(const std::string& folder);
  DatasetReader(DatasetReader&&) noexcept;
  DatasetReader& operator=(DatasetReader&&) = delete;
  ~DatasetReader();

  const Dataset& header() const;  // all but the examples
  // Every example, in order; indices, times and order are checked. An error of `visit` ends it.
  Result<void> visit(const std::function<Result<void>(Example&)>& visit) const;

 private:
  struct Impl;
  explicit DatasetReader(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::dataset
