// A piece of a sketch: the loops of one stage, or of a stage and the one it is fused into.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tessera/space/decision.h"
#include "tessera/space/writer.h"
#include "tessera/support/result.h"

namespace tessera::space {

using Choice = std::span<const std::int32_t>;

// A loop in which producers may be computed.
struct Anchor {
  std::string stage, loop;
};

class Part {
 public:
  virtual ~Part() = default;

  const std::vector<Decision>& decisions() const { return decisions_; }

  // Words for the loops in which producers may be computed, from the outermost inwards: as many as
  // write() gives.
  const std::vector<std::string>& anchor_names() const { return anchor_names_; }
  // How many of them surround every read that `stage`, one of this part, makes.
  virtual std::size_t depth_of(std::size_t stage) const = 0;

  // `choice` holds one index per decision of this part.
  virtual Result<void> check(Choice choice) const = 0;
  // `at`: the loop of a consumer the part is computed in; null: by itself, with threads of its own.
  // Consumers are written before producers. Returns the loops that anchor_names() names.
  virtual std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const = 0;

 protected:
  std::size_t add(Decision decision) {
    decisions_.push_back(std::move(decision));
    return decisions_.size() - 1;
  }
  const std::vector<std::int64_t>& values(Choice choice, std::size_t decision) const {
    return decisions_[decision].values[static_cast<std::size_t>(choice[decision])];
  }
  std::int64_t value(Choice choice, std::size_t decision) const {
    return values(choice, decision)[0];
  }

  std::vector<Decision> decisions_;
  std::vector<std::string> anchor_names_;
};

// A decision with one number per value. `preferred`: the value, or the largest below it.
Decision number_decision(std::string name, DecisionKind kind,
                         const std::vector<std::int64_t>& numbers, std::int64_t preferred);
// A decision with one word per value; the values are 0, 1, ...
Decision word_decision(std::string name, DecisionKind kind, std::vector<std::string> words,
                       std::int32_t preferred = 0);

}  // namespace tessera::space
