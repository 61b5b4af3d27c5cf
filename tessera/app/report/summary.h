// What a tuning knows at its end and its records do not tell; kept with its session.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/support/result.h"

namespace tessera::report {

// A kernel of the tuned models.
struct KernelUse {
  std::string key, algorithm;
  double uses_before = 0, uses_after = 0;  // runs of it by the untuned and the tuned models
  double before_s = 0, after_s = 0;        // default and winner, timed side by side; 0: none
  bool cold = false;                       // timed with its constants in memory
  std::string candidate;                   // that won; empty: the default
  std::vector<std::string> layers = {};    // of the models that it computes
};

struct WholeModel {
  std::string name;
  double before_s = 0, after_s = 0;  // 0: not timed
  bool trusted = true;
};

// A tuned model beside another library.
struct Peer {
  std::string model, name;
  double ours_s = 0, theirs_s = 0;
};

struct Summary {
  std::vector<WholeModel> models;
  std::vector<KernelUse> kernels;
  std::string stopped_by;
  std::int64_t disturbed = 0;  // times that other work shared, and that do not count
  bool busy = false;
  std::vector<Peer> peers = {};
  std::string unproved = {};  // file with what seemed faster and was not kept; empty: there is none
};

std::string to_json(const Summary& summary);
// kInvalidArgument: it is none.
Result<Summary> summary_from_json(std::string_view text);

}  // namespace tessera::report
