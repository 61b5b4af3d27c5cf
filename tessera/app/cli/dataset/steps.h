// The steps of making a dataset, to be run here or on several machines: what `sample`, `build` and
// `generate` share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/app/cli/dataset/dataset.h"
#include "tessera/app/collect/dataset_build.h"
#include "tessera/app/collect/dataset_sample.h"

namespace tessera::cli {

struct SampleArgs {
  std::vector<std::string> models, ops;
  std::string target = "host";
  app::SampleOptions options;
};

struct BuildArgs {
  app::BuildOptions options;
  std::optional<std::size_t> shard;  // none: all
};

// A name, or what `tessera-runner --machine` printed.
Result<target::Target> target_of(const std::string& text);

// Each returns an exit code.
int sample(SampleArgs& args);
int build(BuildArgs& args);

void add_sample_options(Flags* sub, SampleArgs* args);
void add_build_options(Flags* sub, BuildArgs* args);

}  // namespace tessera::cli
