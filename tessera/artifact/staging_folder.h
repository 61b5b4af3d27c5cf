// A folder that appears whole or not at all: filled beside its final place and renamed.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::artifact {

class StagingFolder {
 public:
  // Parents of `path` are created. kInvalidArgument: `path` exists and is neither an empty folder
  // nor an artifact that may be replaced; kIo: it cannot be made.
  static Result<StagingFolder> make(const std::string& path);

  StagingFolder(StagingFolder&& other) noexcept;
  StagingFolder& operator=(StagingFolder&&) = delete;
  ~StagingFolder();  // removes everything that was not published

  const std::string& path() const { return staging_; }
  Result<void> publish();

 private:
  StagingFolder(std::string final_path, std::string staging)
      : final_(std::move(final_path)), staging_(std::move(staging)) {}

  std::string final_, staging_;  // staging_ is empty when there is nothing to remove
};

}  // namespace tessera::artifact
