// The words that the compiler writes.
#pragma once

#include "tessera/learn/lm/sentence.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/space.h"

namespace tessera::lm {

// Writes the subjects of one space. The space must outlive it.
class Scribe {
 public:
  explicit Scribe(const space::Space& space);

  // Sentences that answer the decisions of a sketch of the space.
  Subject subject(std::int32_t sketch) const;
  // Sentences of one answer: which sketch, by its number in the space.
  Subject choice_of_sketch() const;

 private:
  const space::Space& space_;
  space::Analysis analysis_;
  Subject common_;  // prompt up to the machine
};

}  // namespace tessera::lm
