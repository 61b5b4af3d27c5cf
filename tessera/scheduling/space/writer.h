// Writes schedule steps and knows the names that splits and fusions give to loops.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/scheduling/schedule/step.h"

namespace tessera::space {

using Loops = std::vector<std::string>;

class Writer {
 public:
  enum class Mode {
    kSteps,
    kNames,  // nothing is written: whoever only wants to know what is asked for
  };
  explicit Writer(Mode mode = Mode::kSteps) : mode_(mode) {}

  // Tails are peeled: vectors and unrolled tiles want no conditions. Returns the parts.
  Loops split(const std::string& stage, const std::string& loop, std::vector<std::int64_t> lengths,
              schedule::Tail tail = schedule::Tail::kPeel);
  // One loop of several; of a single one, itself.
  std::string fuse(const std::string& stage, const Loops& loops);
  void reorder(const std::string& stage, const Loops& loops);
  void parallel(const std::string& stage, const std::string& loop);
  void vectorize(const std::string& stage, const std::string& loop);
  void unroll(const std::string& stage, const std::string& loop);
  // The loops from `loop` inward become one instruction.
  void tensorize(const std::string& stage, const std::string& loop, const std::string& instruction);
  void compute_at(const std::string& stage, const std::string& target, const std::string& loop);
  void compute_inline(const std::string& stage);
  void annotate(const std::string& stage, const std::string& loop, schedule::Annotation kind);
  // Returns the name of the copy.
  std::string cache_read(const std::string& buffer, const std::string& reader,
                         const std::string& scope = "local");
  // Returns the name of the stage that computes.
  std::string cache_write(const std::string& stage, const std::string& scope);
  // Returns the name of the partial stage; `repeat` counts factorings of the same stage from 1.
  std::string rfactor(const std::string& stage, const std::string& loop, std::size_t axis,
                      int repeat = 1);
  void prefetch(const std::string& stage, const std::string& loop, const std::string& buffer,
                std::int64_t distance);
  void layout(const std::string& buffer, schedule::Layout layout);
  void pragma(const std::string& stage, const std::string& loop, const std::string& key,
              std::int64_t value);
  void storage_align(const std::string& stage, int dim, std::int64_t factor, std::int64_t offset);

  const schedule::Schedule& schedule() const { return schedule_; }
  schedule::Schedule take() && { return std::move(schedule_); }

 private:
  bool writes() const { return mode_ == Mode::kSteps; }

  Mode mode_;
  schedule::Schedule schedule_;
};

}  // namespace tessera::space
