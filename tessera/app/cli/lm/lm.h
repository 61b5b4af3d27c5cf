// The parts of `tessera lm`.
#pragma once

#include <functional>

#include "tessera/app/cli/common/flags.h"

namespace tessera::cli {

void add_lm(Flags& app, std::function<int()>* run);

void add_lm_corpus(Flags& lm, std::function<int()>* run);
void add_lm_eval(Flags& lm, std::function<int()>* run);
void add_lm_generate(Flags& lm, std::function<int()>* run);

}  // namespace tessera::cli
