// One stage by itself: elementwise ones, pools, reductions of rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/machine/target/target.h"
#include "tessera/scheduling/space/analysis.h"
#include "tessera/scheduling/space/fold.h"
#include "tessera/scheduling/space/rules/part.h"

namespace tessera::space {

class RowPart final : public Part {
 public:
  // `alone`: always computed by itself, never inside a loop of a consumer.
  RowPart(std::shared_ptr<const Analysis> analysis, const target::Target& target, std::size_t stage,
          bool alone);

  std::size_t depth_of(std::size_t) const override { return anchor_names_.size(); }
  void walk(std::span<std::int32_t> choice, const Place& place, Asker& asker) const override;
  std::int64_t code(Choice choice) const override;
  std::int64_t least_code() const override;
  bool pads() const override;
  std::vector<Anchor> write(Choice choice, const Anchor* at, Writer& writer) const override;

 private:
  enum class Mode {
    kScalar,  // loops as written
    kLine,    // all axes as one
    kPoint,   // vectors along the last axis, no reduction
    kLanes,   // vectors along the last axis, the reduction outside of them
    kFold,    // vectors along the reduction, folded at the end
  };

  const Stage& stage() const { return analysis_->stages[stage_]; }
  const std::string& name() const { return stage().op.name; }
  Mode choose_mode() const;
  void find_axes();
  void add_line();
  void add_vectors();
  void add_fold();
  // Shortens the preferred vectors until they are legal.
  void mend_preferred();
  void add_parallel(std::size_t loops);
  void add_anchors(std::size_t loops);

  std::int64_t rows(Choice choice) const { return has_rows_ ? value(choice, rows_) : 1; }
  // Vectors of `length` elements, of so many rows and steps of the window, by themselves or not.
  const char* refuse_tile(std::int64_t length, std::int64_t rows, std::int64_t steps,
                          const Place& place) const;
  std::int64_t code_of(std::int64_t length, std::int64_t rows, std::int64_t steps) const;
  Loops reduce_names() const;

  void write_line(Choice choice, Writer& writer) const;
  std::vector<Anchor> write_vectors(Choice choice, bool inside, Writer& writer) const;
  std::vector<Anchor> write_scalar(Choice choice, bool inside, Writer& writer) const;
  // Factors the reduction; returns the stage whose loops are shared out and those loops.
  struct Folded {
    std::string stage;
    Folding folding;
    Loops others;  // reduce loops outside of the steps
    Loops outer;
  };
  std::vector<Anchor> write_fold(Choice choice, bool inside, Writer& writer) const;
  Folded factor(Choice choice, Writer& writer) const;
  void write_partial(const Folded& f, const std::string& attach, Writer& writer) const;
  // Shares out the leading loops unless they run inside others; returns the anchors.
  std::vector<Anchor> share(Choice choice, const std::string& of, Loops loops, bool inside,
                            Writer& writer) const;

  std::shared_ptr<const Analysis> analysis_;
  target::Target target_;
  std::size_t stage_;
  bool alone_;
  Mode mode_ = Mode::kScalar;
  int lanes_ = 1;
  std::vector<std::size_t> outer_;  // axes of several elements before the one of the vectors
  Loops units_;                     // loops of one iteration
  std::size_t last_ = 0;            // axis of the vectors
  bool has_rows_ = false, has_jobs_ = false;
  std::size_t vector_ = 0, rows_ = 0, unroll_ = 0, parallel_ = 0, jobs_ = 0;
};

}  // namespace tessera::space
