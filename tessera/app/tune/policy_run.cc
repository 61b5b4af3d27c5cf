#include "tessera/app/tune/policy_run.h"

#include <charconv>
#include <map>
#include <unordered_set>
#include <utility>

#include "tessera/app/compile/shipped_model.h"
#include "tessera/learn/lm/adapter.h"
#include "tessera/learn/lm/opaque_reader.h"
#include "tessera/search/policy_program.h"

namespace tessera::app {
namespace {

// What a language model of a variant is.
struct LanguageChoice {
  std::string path;  // empty: none
  double guidance = kGuidance;
  bool opaque = false;
};

bool read_number(const std::string& text, double* number) {
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && rest == end && *number >= 0;
}

Result<void> set_option(const std::string& text, const target::Target& target, PolicyVariant* v,
                        LanguageChoice* language) {
  const std::size_t equals = text.find('=');
  const std::string name = text.substr(0, equals);
  const std::string value = equals == std::string::npos ? "" : text.substr(equals + 1);
  if (name == "acquisition" && (value == "mean" || value == "ei" || value == "ucb")) {
    v->policy_options.acquisition = value;
    // The spread comes from an ensemble.
    if (value != "mean") v->learner.model = "gbt_ensemble";
    return {};
  }
  if (name == "features" &&
      (value == "statement" || value == "loop" || value == "curve" || value == "decisions")) {
    v->learner.features = value;
    return {};
  }
  if (name == "objective" && (value == "rank" || value == "regression")) {
    v->learner.objective = value;
    return {};
  }
  if (name == "pretrained" && !value.empty()) {
    v->learner.pretrained = model_paths(value, target);
    return {};
  }
  if (name == "model" && value == "none") {
    v->learner.model = value;
    return {};
  }
  if (name == "language" && !value.empty()) {
    TESSERA_TRY(language->path, language_path(value, target));
    return {};
  }
  if (name == "adapt" && value.empty()) {
    v->adapts = true;
    return {};
  }
  if (name == "opaque" && value.empty()) {
    language->opaque = true;
    return {};
  }
  if (name == "guidance" && read_number(value, &language->guidance)) return {};
  if (name == "judge" && read_number(value, &v->policy_options.judge)) return {};
  if (double draws = 0;
      name == "draws" && read_number(value, &draws) && draws >= 1 && draws < 1e5) {
    v->policy_options.draws = static_cast<int>(draws);
    return {};
  }
  if (double population = 0; name == "population" && read_number(value, &population) &&
                             population >= 1 && population < 1e5) {
    v->policy_options.population = static_cast<int>(population);
    return {};
  }
  if (name == "diversity" && read_number(value, &v->policy_options.diversity)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    "'{}' is not an option of a policy; there are diversity=NUMBER, draws=NUMBER, "
                    "guidance=NUMBER, judge=NUMBER, population=NUMBER, "
                    "acquisition=mean|ei|ucb, features=statement|loop|curve|decisions, "
                    "objective=rank|regression, pretrained=none|shipped|FILE, model=none, "
                    "language=shipped|FILE, adapt and opaque",
                    text);
}

}  // namespace

Result<PolicyVariant> policy_variant(const std::string& text, const PolicyVariant& base,
                                     const target::Target& target) {
  if (text.starts_with(kProgramPrefix)) {
    PolicyVariant v = base;
    v.label = text;
    TESSERA_TRY(v.policy, search::find_policy("exec"));
    TESSERA_TRY(v.policy_options.program,
                search::PolicyProgram::start(text.substr(kProgramPrefix.size())));
    return v;
  }
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == '+') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  PolicyVariant v = base;
  v.label = text;
  TESSERA_TRY(v.policy, search::find_policy(parts[0]));
  if (std::string_view(v.policy->name) == "exec") {
    return make_error(ErrorCode::kInvalidArgument,
                      "policy exec is a program of your own: exec:./my_policy.py");
  }
  LanguageChoice language;
  for (std::size_t i = 1; i < parts.size(); ++i)
    TESSERA_DO(set_option(parts[i], target, &v, &language));
  if (!language.path.empty()) {
    std::shared_ptr<lm::Reader> own;
    std::shared_ptr<lm::Reader>& reader =
        v.languages ? (*v.languages)[{language.path, language.guidance}] : own;
    if (!reader) {
      TESSERA_TRY(reader, open_language(language.path, language.guidance, v.language_threads));
      if (language.opaque) reader = std::make_shared<lm::OpaqueReader>(reader);
    }
    v.policy_options.language = reader;
  }
  return v;
}

Result<void> load_pretrained(std::vector<PolicyVariant>* variants) {
  std::map<std::vector<std::string>, std::shared_ptr<const model::CostModel>> loaded;
  for (PolicyVariant& v : *variants) {
    const std::vector<std::string> paths = std::exchange(v.learner.pretrained, {});
    if (paths.empty() || !v.policy->uses_model || v.learner.model == "none") continue;
    if (loaded[paths] == nullptr) {
      TESSERA_TRY(loaded[paths], model::load_models(paths, v.learner.threads));
    }
    v.learner.global = loaded[paths];
  }
  return {};
}

Result<void> check_program(const search::PolicyOptions& options) {
  if (!options.program || options.program->error().empty()) return {};
  return Error{ErrorCode::kRunFailed, options.program->error()};
}

Result<std::vector<search::TrialResult>> run_policy(const PolicyVariant& variant, PolicyRun run) {
  std::unique_ptr<search::Learner> learner;
  if (variant.policy->uses_model && variant.learner.model != "none") {
    search::LearnerOptions learning = variant.learner;
    learning.background = false;
    learning.seed = run.seed;
    TESSERA_TRY(learner, search::Learner::make(learning));
  }
  search::PolicyOptions policy_options = variant.policy_options;
  policy_options.seed = run.seed;
  if (variant.adapts && policy_options.language) {
    policy_options.language = std::make_shared<lm::AdaptedReader>(policy_options.language,
                                                                  std::make_shared<lm::Adapter>());
  }
  search::TaskSearch task(*run.space, *variant.policy, policy_options, learner.get());
  std::unordered_set<decide::Candidate, decide::CandidateHash> measured;
  std::vector<search::TrialResult> trials;
  for (const std::size_t wanted : run.rounds) {
    if (learner) learner->update();
    std::vector<decide::Candidate> proposed = task.propose(wanted);
    measured.insert(proposed.begin(), proposed.end());
    // Many points stand for few recorded ones: what a policy cannot reach is drawn for it.
    for (; proposed.size() < wanted && !run.others.empty(); run.others.pop_back()) {
      if (measured.insert(run.others.back()).second) proposed.push_back(run.others.back());
    }
    if (proposed.empty()) break;
    TESSERA_TRY(const std::vector<search::TrialResult> results, run.measure(proposed));
    for (const search::TrialResult& result : results) task.observe({&result, 1});
    trials.insert(trials.end(), results.begin(), results.end());
    TESSERA_DO(check_program(policy_options));
  }
  return trials;
}

}  // namespace tessera::app
