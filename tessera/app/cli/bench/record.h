// tessera bench --record: a run kept as it was, for `tessera results`.
#pragma once

#include <string>

#include "tessera/machine/target/target.h"
#include "tessera/support/json.h"
#include "tessera/support/result.h"

namespace tessera::cli {

// A new file FOLDER/MACHINE/TIME.json with machine, version, date and command, written again after
// every result: what was measured before an interruption is kept.
class RunRecord {
 public:
  static Result<RunRecord> begin(const std::string& folder, const target::Target& target);
  Result<void> add(Json result);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Json run_;
};

}  // namespace tessera::cli
