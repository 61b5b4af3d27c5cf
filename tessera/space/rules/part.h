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
  // Copies that are made of what is computed inside the part's loops.
  virtual std::int64_t copies(Choice) const { return 1; }
  // Vector operations of the text of the part, with its own copies.
  virtual std::int64_t code(Choice) const { return 1; }
  // True if it pads: loops around it are cut where the conditions change.
  virtual bool pads() const { return false; }
  // Gives decisions without effect their preferred value; `inside`: the part has no threads of its
  // own.
  virtual void settle(std::span<std::int32_t> choice, bool inside) const;
  // `at`: the loop of a consumer the part is computed in; null: by itself, with threads of its own.
  // Consumers are written before producers. Returns the loops that anchor_names() names.
  virtual std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const = 0;

 protected:
  void prefer(std::span<std::int32_t> choice, std::size_t decision) const {
    choice[decision] = decisions_[decision].preferred;
  }
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

// Copies that the conditions of padding make of what lies inside `levels` loops over each of two
// dimensions: the first and the last iteration of every level differ from the rest.
inline std::int64_t padding_copies(std::size_t levels) {
  const auto parts = static_cast<std::int64_t>(2 * levels + 1);
  return parts * parts;
}

// A decision with one number per value. `preferred`: the value, or the largest below it.
Decision number_decision(std::string name, DecisionKind kind,
                         const std::vector<std::int64_t>& numbers, std::int64_t preferred);
// A decision with one word per value; the values are 0, 1, ...
Decision word_decision(std::string name, DecisionKind kind, std::vector<std::string> words,
                       std::int32_t preferred = 0);

}  // namespace tessera::space
