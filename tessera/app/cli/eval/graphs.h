// tessera eval --graphs.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

struct EvalGraphsArgs {
  std::vector<std::string> files;
  std::vector<std::string> weights;  // at least one; several judge together; estimate: no file
  bool unseen = false, json = false;
  bool searches = false;  // how many configurations they measure instead
  int threads = 1;
};

// Returns an exit code.
int eval_graphs(const EvalGraphsArgs& args);

}  // namespace tessera::cli
