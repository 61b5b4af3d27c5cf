// Candidates that a program of the user's proposes. What it may ask meanwhile: samples, mutations,
// scores. Where it fails, evolution goes on with all that was measured.
#include <optional>

#include "tessera/search/breeding.h"
#include "tessera/search/policies/policies.h"
#include "tessera/search/policy_program.h"
#include "tessera/support/json_lines.h"

namespace tessera::search {
namespace {

using nlohmann::json;

constexpr int kPolicyProtocol = 1;
constexpr int kMostAsked = 10'000;          // questions of the program before a proposal
constexpr std::size_t kMostDrawn = 10'000;  // samples for one of them

class Program final : public DrawingPolicy {
 public:
  Program(const decide::Space& space, Scorer& scorer, const PolicyOptions& options)
      : DrawingPolicy(space, options),
        scorer_(scorer),
        program_(options.program.get()),
        fallback_(make_evolutionary(space, scorer, options)) {
    if (program_ != nullptr) search_ = program_->begin_search();
  }

  std::vector<decide::Candidate> propose(std::size_t n) override {
    std::vector<decide::Candidate> out;
    if (n == 0) return out;
    if (usable()) {
      open();
      const Result<std::vector<decide::Candidate>> proposed = ask_for(n);
      if (proposed.ok()) claim(*proposed, &out);
    }
    if (!usable()) claim(fallback_->propose(n - out.size()), &out);
    fill_up(space_, n, history_, rng_, &out);
    return out;
  }

  void observe(std::span<const Observation> observations) override {
    history_.observe(observations);
    fallback_->observe(observations);
    if (!usable() || observations.empty()) return;
    open();
    json results = json::array();
    for (const Observation& o : observations) {
      results.push_back({{"candidate", space_.to_text(o.candidate)},
                         {"seconds", o.seconds > 0 ? json(o.seconds) : json()},
                         {"censored", o.censored}});
    }
    // An error stays with the program.
    (void)converse(program_->program(), message("observe", {{"results", std::move(results)}}),
                   [](const json&) { return 0; });
  }

 private:
  bool usable() const { return program_ != nullptr && program_->error().empty(); }

  json message(const char* what, json members) const {
    members["do"] = what;
    members["search"] = search_;
    return members;
  }

  void claim(const std::vector<decide::Candidate>& candidates,
             std::vector<decide::Candidate>* out) {
    for (const decide::Candidate& c : candidates) {
      if (history_.claim(c)) out->push_back(c);
    }
  }

  // The space, before the first question about it.
  void open() {
    if (opened_) return;
    opened_ = true;
    json sketches = json::array();
    for (const auto& sketch : space_.sketches()) {
      json points = json::array();
      for (const decide::Point& p : sketch->points()) {
        json values = json::array();
        for (std::size_t i = 0; i < p.values.size(); ++i)
          values.push_back(p.label(static_cast<std::int32_t>(i)));
        points.push_back({{"name", p.name},
                          {"kind", to_text(p.kind)},
                          {"values", std::move(values)},
                          {"preferred", p.label(p.preferred)}});
      }
      sketches.push_back({{"name", sketch->name()}, {"points", std::move(points)}});
    }
    (void)converse(program_->program(),
                   message("open", {{"sketches", std::move(sketches)},
                                    {"preferred", space_.to_text(space_.preferred())},
                                    {"seed", options_.seed}}),
                   [](const json&) { return 0; });
  }

  Result<std::vector<decide::Candidate>> ask_for(std::size_t n) {
    json question = message("propose", {{"count", n}});
    for (int asked = 0; asked < kMostAsked; ++asked) {
      TESSERA_TRY(const json reply, converse(program_->program(), question,
                                             [](const json& j) { return checked(j); }));
      if (reply.contains("candidates") && !reply.contains("ask")) {
        Result<std::vector<decide::Candidate>> out = read(reply.at("candidates"));
        if (out.ok() && out->size() > n) {
          return program_->program().fail(
              fmt::format("proposed {} candidates where {} were wanted", out->size(), n));
        }
        return out;
      }
      TESSERA_TRY(question, answer(reply));
    }
    return program_->program().fail(
        fmt::format("asked {} times without proposing anything", kMostAsked));
  }

  // Throws at what is neither a proposal nor a question.
  static json checked(const json& reply) {
    if (!reply.contains("ask") && !reply.contains("candidates"))
      throw std::runtime_error("neither \"candidates\" nor \"ask\"");
    if (reply.contains("candidates")) {
      for (const json& c : reply.at("candidates")) (void)c.get_ref<const std::string&>();
    }
    if (reply.contains("ask")) (void)reply.at("ask").get_ref<const std::string&>();
    if (reply.contains("count") && !reply.at("count").is_number_unsigned())
      throw std::runtime_error("\"count\" is not a whole number");
    return reply;
  }

  Result<std::vector<decide::Candidate>> read(const json& texts) {
    std::vector<decide::Candidate> out;
    for (const json& text : texts) {
      Result<decide::Candidate> c = space_.parse(text.get_ref<const std::string&>());
      if (!c.ok()) return program_->program().fail(c.error().message);
      const std::optional<decide::Candidate> settled = space_.settled(*c);
      if (!settled) {
        return program_->program().fail(fmt::format("'{}' is not legal: {}",
                                                    text.get_ref<const std::string&>(),
                                                    space_.check(*c).error().message));
      }
      out.push_back(*settled);
    }
    return out;
  }

  Result<json> answer(const json& asked) {
    const std::string what = asked.at("ask").get<std::string>();
    json texts = json::array();
    if (what == "sample") {
      const std::size_t count = std::min(asked.value("count", std::size_t{1}), kMostDrawn);
      for (std::size_t i = 0; i < count; ++i) texts.push_back(space_.to_text(space_.sample(rng_)));
      return json{{"candidates", std::move(texts)}};
    }
    TESSERA_TRY(const std::vector<decide::Candidate> candidates,
                read(asked.value("candidates", json::array())));
    if (what == "mutate") {
      for (const decide::Candidate& c : candidates) {
        const std::optional<decide::Candidate> next = space_.mutate(c, rng_);
        texts.push_back(next ? json(space_.to_text(*next)) : json());
      }
      return json{{"candidates", std::move(texts)}};
    }
    if (what == "score") {
      return json{{"scores", scorer_.ready() ? json(scorer_.score(candidates)) : json()}};
    }
    return program_->program().fail(
        fmt::format("asked for '{}'; there are sample, mutate and score", what));
  }

  Scorer& scorer_;
  PolicyProgram* program_;  // null: the fallback alone
  std::unique_ptr<Policy> fallback_;
  int search_ = 0;
  bool opened_ = false;
};

}  // namespace

Result<std::shared_ptr<PolicyProgram>> PolicyProgram::start(const std::string& command,
                                                            const LineProgramLimits& limits) {
  TESSERA_TRY(std::unique_ptr<LineProgram> program, LineProgram::start(command, limits));
  const json start = {{"do", "start"}, {"for", "policy"}, {"version", kPolicyProtocol}};
  const Result<int> greeted = converse(*program, start, [](const json& j) {
    if (!j.is_object()) throw std::runtime_error("not an object");
    return 0;
  });
  if (!greeted.ok()) return Error{ErrorCode::kInvalidArgument, greeted.error().message};
  return std::shared_ptr<PolicyProgram>(new PolicyProgram(std::move(program)));
}

std::unique_ptr<Policy> make_program(const decide::Space& space, Scorer& scorer,
                                     const PolicyOptions& options) {
  return std::make_unique<Program>(space, scorer, options);
}

}  // namespace tessera::search
