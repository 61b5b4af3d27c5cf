// tessera lm: schedules written by a language model.
#include "tessera/cli/lm.h"

namespace tessera::cli {

void add_lm(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("lm", "Schedules as sentences that a language model writes");
  sub->require_subcommand(1, 1);
  add_lm_corpus(*sub, run);
  add_lm_generate(*sub, run);
}

}  // namespace tessera::cli
