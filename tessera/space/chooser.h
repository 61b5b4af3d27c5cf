// The open choices of a schedule while it is written: listed when a sketch is made, replayed for
// every candidate. The families ask for every choice here, so that one code path writes both.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/space/decision.h"
#include "tessera/support/result.h"

namespace tessera::space {

class Chooser {
 public:
  // Takes what reasoning prefers and keeps no list.
  Chooser() = default;
  // Takes values of `decisions` by `choice`. What is not among them takes what reasoning prefers;
  // with `listed` it is added there, and so it is preferred from then on.
  Chooser(const std::vector<Decision>& decisions, std::span<const std::int32_t> choice,
          std::vector<Decision>* listed = nullptr);

  // A number: `values()` gives those to list, in any order, with or without `preferred`.
  template <class Values>
  std::int64_t number(const std::string& stage, std::string_view what, DecisionKind kind,
                      std::int64_t preferred, Values&& values) {
    if (const Decision* d = find(stage, what)) return d->values[index_][0];
    if (listed_) list_numbers(stage, what, kind, preferred, values());
    return preferred;
  }
  // One of the words, by its position.
  int word(const std::string& stage, std::string_view what, DecisionKind kind, int preferred,
           std::span<const char* const> words);
  bool flag(const std::string& stage, std::string_view what, DecisionKind kind, bool preferred);

  // Static legality: the first reason stays.
  void refuse(std::string reason);
  const std::optional<Error>& refusal() const { return refusal_; }

  // Per decision: whether it was asked for.
  const std::vector<bool>& asked() const { return asked_; }

 private:
  // The decision with the value to take in index_; nullptr when there is none of that name.
  const Decision* find(const std::string& stage, std::string_view what);
  void list_numbers(const std::string& stage, std::string_view what, DecisionKind kind,
                    std::int64_t preferred, std::vector<std::int64_t> values);

  const std::vector<Decision>* decisions_ = nullptr;
  std::span<const std::int32_t> choice_;
  std::vector<Decision>* listed_ = nullptr;
  std::vector<bool> asked_;
  std::size_t next_ = 0, index_ = 0;
  std::optional<Error> refusal_;
};

}  // namespace tessera::space
