// A piece of a sketch: the loops of one stage, or of a stage and the one it is fused into.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/scheduling/space/sketch.h"
#include "tessera/scheduling/space/writer.h"

namespace tessera::space {

// A loop in which producers may be computed.
struct Anchor {
  std::string stage, loop;
};

// Where a part is computed, as far as it concerns the part.
struct Place {
  bool inside = false;  // in a loop of a consumer: it has no threads of its own
  std::int64_t most_code = std::numeric_limits<std::int64_t>::max();  // of code(), there
};

class Part {
 public:
  virtual ~Part() = default;

  const std::vector<Point>& points() const { return points_; }
  // Whether a decision is one of the sketch; else it keeps its preferred value, the only one.
  bool open(std::size_t decision) const { return open_[decision]; }
  // Leaves open those decisions of several values whose names end with a word, and names them as it
  // says.
  void keep_open(const std::vector<std::pair<std::string, std::string>>& names);

  // Words for the loops in which producers may be computed, from the outermost inwards: as many as
  // write() gives.
  const std::vector<std::string>& anchor_names() const { return anchor_names_; }
  // How many of them surround every read that `stage`, one of this part, makes.
  virtual std::size_t depth_of(std::size_t stage) const = 0;

  // As Sketch::walk, for the decisions of this part; the answers go to `choice`, which has the
  // preferred values before.
  virtual void walk(std::span<std::int32_t> choice, const Place& place, Asker& asker) const = 0;
  // Copies that are made of what is computed inside the part's loops.
  virtual std::int64_t copies(Choice) const { return 1; }
  // Vector operations of the text of the part, with its own copies; the least there can be.
  virtual std::int64_t code(Choice) const { return 1; }
  virtual std::int64_t least_code() const { return 1; }
  // True if it pads: loops around it are cut where the conditions change.
  virtual bool pads() const { return false; }
  // `at`: the loop of a consumer the part is computed in; null: by itself, with threads of its own.
  // Consumers are written before producers. Returns the loops that anchor_names() names.
  virtual std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const = 0;

  std::vector<std::int32_t> preferred() const;

  // Whether a choice is legal where the part is by itself.
  bool legal(Choice choice) const;

 protected:
  // Called when the lists of values have changed.
  virtual void update() {}
  std::size_t add(Point decision) {
    points_.push_back(std::move(decision));
    open_.push_back(true);
    return points_.size() - 1;
  }
  const std::vector<std::int64_t>& values(Choice choice, std::size_t decision) const {
    return points_[decision].values[static_cast<std::size_t>(choice[decision])];
  }
  std::int64_t value(Choice choice, std::size_t decision) const {
    return values(choice, decision)[0];
  }

  std::vector<Point> points_;
  std::vector<bool> open_;
  std::vector<std::string> anchor_names_;
};

// Copies that the conditions of padding make of what lies inside `levels` loops over each of two
// dimensions: the first and the last iteration of every level differ from the rest.
inline std::int64_t padding_copies(std::size_t levels) {
  const auto parts = static_cast<std::int64_t>(2 * levels + 1);
  return parts * parts;
}

// A decision with one number per value. `preferred`: the value, or the largest below it.
Point number_decision(std::string name, PointKind kind, const std::vector<std::int64_t>& numbers,
                      std::int64_t preferred);
// A decision with one word per value; the values are 0, 1, ...
Point word_decision(std::string name, PointKind kind, std::vector<std::string> words,
                    std::int32_t preferred = 0);

}  // namespace tessera::space
