// Databases of records and logs of other programs as a dataset.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tessera/dataset/dataset.h"

namespace tessera::driver {

struct ImportOptions {
  // Databases, their exports as JSON lines, logs of Ansor and TenSet; plain or gzip. What each is
  // follows from its content.
  std::vector<std::string> files;
  // Models whose uses of tasks are counted: zoo:NAME[@parameter=value,...] or ONNX files. Empty:
  // the zoo models that the sessions of the databases name. Of a choice between algorithms the
  // option taken without tuning counts.
  std::vector<std::string> networks;
  std::function<void(const std::string& what)> progress;
};

struct ImportResult {
  dataset::Dataset dataset;
  std::size_t read = 0;        // records of all files
  std::size_t duplicates = 0;  // further measurements of a candidate
  std::size_t dropped = 0;     // lost workers, records of unknown tasks
};

// Times are corrected by the calibration beside them to the median calibration of their machine in
// that file. Of several measurements of a candidate the median of the clean ones counts. Logs give
// one network each, named after the file, that runs every task once; those of different folders are
// of different machines, for a target string does not tell two cards apart.
Result<ImportResult> import_dataset(const ImportOptions& options);

// How often each model runs each task, by key, under the name without "zoo:".
Result<dataset::NetworkInfo> network_info(const std::string& model);

// One name a line; empty lines and comments (#) are passed over.
Result<std::vector<std::string>> read_names(const std::string& path);

}  // namespace tessera::driver
