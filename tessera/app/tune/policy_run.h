// One search of one task, trial after trial: what comparisons of policies are made of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/search/model_scorer.h"
#include "tessera/search/policy.h"
#include "tessera/search/task_search.h"

namespace tessera::app {

// Language models by file and guidance.
using OpenLanguages = std::map<std::pair<std::string, double>, std::shared_ptr<lm::Reader>>;

// One way to search.
struct PolicyVariant {
  std::string label;
  const search::PolicyEntry* policy = nullptr;
  search::PolicyOptions policy_options;
  search::LearnerOptions learner;  // model "none": the policy works without
  int language_threads = 0;        // that a language model reads on; 0: all cores
  bool adapts = false;             // what is measured teaches the language model, in each run anew
  // Where variants that run one after the other find what another one opened; null: nowhere.
  std::shared_ptr<OpenLanguages> languages;
};

// "annealing", or with options "annealing+diversity=1+acquisition=ei+features=curve",
// "evolutionary+pretrained=none" or "lm+language=FILE+guidance=1+model=none"; what it leaves open
// is as in `base`. "exec:COMMAND" starts the program and has no options.
Result<PolicyVariant> policy_variant(const std::string& text, const PolicyVariant& base,
                                     const target::Target& target);

// Replaces the paths of pretrained models by the models: each file is loaded once.
Result<void> load_pretrained(std::vector<PolicyVariant>* variants);

// kRunFailed: the program that proposes has failed, and another policy took its place.
Result<void> check_program(const search::PolicyOptions& options);

struct PolicyRun {
  const space::Space* space = nullptr;
  // What comes of candidates, in their order.
  std::function<Result<std::vector<search::TrialResult>>(std::span<const decide::Candidate>)>
      measure;
  // Taken from the back where the policy proposes nothing more; a space that is used up ends the
  // run.
  std::vector<decide::Candidate> others;
  std::vector<std::size_t> rounds;  // trials of each
  std::uint64_t seed = 1;
};

// The trials in the order in which they were proposed.
Result<std::vector<search::TrialResult>> run_policy(const PolicyVariant& variant, PolicyRun run);

}  // namespace tessera::app
