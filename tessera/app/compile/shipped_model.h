// The cost models that come with Tessera: weights/<arch>-<name>.safetensors, see weights/README.md.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/learn/lm/reader.h"
#include "tessera/learn/model/cost_model.h"
#include "tessera/machine/target/target.h"
#include "tessera/support/result.h"

namespace tessera::app {

inline constexpr const char* kShipped = "shipped";
inline constexpr const char* kNoModel = "none";
// For people, where kShipped is wanted and there is no folder of weights at all.
inline constexpr const char* kNoWeights =
    "no trained weights beside this program or in $TESSERA_SHARE/weights: working without a cost "
    "model";

// The folder of that name that belongs to a program in the folder `bin`: that of the sources which
// it was built from (bin/../../../NAME), or the installed one (bin/../share/tessera/NAME). The
// first that holds the file `marker`; empty: there is none. The working directory, which may be
// anybody's, counts for nothing.
std::string shipped_folder(const std::string& bin, const std::string& name,
                           const std::string& marker);
// That of the running program, or of the library that this code is in; else, for a program that was
// copied somewhere, NAME below $TESSERA_SHARE or where Tessera installs it.
std::string shipped_folder(const std::string& name, const std::string& marker);

std::string weights_folder();

// Cost models of the folder for the family of the target, the one that is used by default first:
// the one named "<arch>-default", then by name.
std::vector<std::string> shipped_models(const std::string& folder, const target::Target& target);

// The language model of that folder: "<arch>-language", or of CPUs "cpu-language", which reads of
// its prompt what machine it writes for; empty: there is none.
std::string shipped_language(const std::string& folder, const target::Target& target);
// Whether there is one for any target.
bool ships_language();
// What a flag names: "shipped", or a file. kUnavailable: nothing ships for the target.
Result<std::string> language_path(const std::string& text, const target::Target& target);

// How much the evidence of quality counts beside likelihood (lm/guided_reader.h) where nobody says.
inline constexpr double kGuidance = 4;
// Weights of a language model; with a guidance above 0 by a GuidedReader. `threads` read at once;
// 0: all cores.
Result<std::shared_ptr<lm::Reader>> open_language(const std::string& path, double guidance,
                                                  int threads);

// Those of them that are used together by default: the files "<arch>-default-<number>" where there
// are several, else the first alone.
std::vector<std::string> default_models(const std::vector<std::string>& shipped);

// "A,B,C": several files, unless one has just that name.
std::vector<std::string> files_in_list(const std::string& text);

// What a flag names: "none", "shipped" (empty as long as nothing ships for the target), or files
// that judge together.
std::vector<std::string> model_paths(const std::string& text, const target::Target& target);

// The cost models that judge together with a language model where nothing is measured. For
// "shipped" and code with one thread, those of the folder whose names begin with "<arch>-networks"
// where there are any: they learned from kernels that ran in networks, where weights are in other
// caches than when a kernel runs again and again, and with one thread only.
struct ZeroTrialModels {
  std::vector<std::string> paths;
  bool in_networks = false;
};
ZeroTrialModels zero_trial_models(const std::string& text, const std::string& folder,
                                  const target::Target& target);

}  // namespace tessera::app
