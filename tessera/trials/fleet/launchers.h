// Files by which other programs start agents on many machines.
#pragma once

#include <string>

#include "tessera/support/result.h"

namespace tessera::fleet {

struct LaunchOptions {
  std::string program = "/usr/bin/tessera";
  std::string database;  // a URL without a password
  std::string labels;    // "NAME=VALUE,..."; empty: none
  int threads = 1;       // of an agent, and the cores that it is given
  int count = 1;         // agents
  std::string image;     // of Kubernetes
};

// kInvalidArgument names what is missing or cannot be written there.
Result<std::string> systemd_unit(const LaunchOptions& options);         // tessera-agent@.service
Result<std::string> slurm_script(const LaunchOptions& options);         // for sbatch: a job array
Result<std::string> kubernetes_manifest(const LaunchOptions& options);  // a Job, as JSON

}  // namespace tessera::fleet
