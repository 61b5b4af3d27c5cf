// The open choices of a schedule while it is written: listed when a sketch is made, asked for when
// a candidate is made, replayed when it is written. The families ask for every choice here, so that
// one code path does all three.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/scheduling/space/sketch.h"

namespace tessera::space {

// Nothing is refused.
struct AnyValue {
  const char* operator()(std::int64_t) const { return nullptr; }
};

class Chooser {
 public:
  // Takes what reasoning prefers.
  Chooser() = default;
  // Takes values of `decisions` by `choice`. What is not among them takes what reasoning prefers;
  // with `listed` it is added there, and so it is preferred from then on.
  Chooser(const std::vector<Point>& decisions, std::span<const std::int32_t> choice,
          std::vector<Point>* listed = nullptr)
      : points_(&decisions), choice_(choice), listed_(listed) {}
  // Takes the answers of `asker`.
  Chooser(const std::vector<Point>& decisions, Asker& asker)
      : points_(&decisions), asker_(&asker) {}

  // A number: `values()` gives those to list, in any order, with or without `preferred`. Lists do
  // not depend on other choices. `refusal(number)`: why nothing legal begins with it, or null.
  template <class Values, class F = AnyValue>
  std::int64_t number(const std::string& stage, std::string_view what, PointKind kind,
                      std::int64_t preferred, Values&& values, F&& refusal = {}) {
    if (const Point* d = find(stage, what)) {
      return d->values[answer(
          [&](std::int32_t v) { return refusal(d->values[static_cast<std::size_t>(v)][0]); })][0];
    }
    if (listed_) list_numbers(stage, what, kind, preferred, values());
    return preferred;
  }
  // One of the words, by its position.
  template <class F = AnyValue>
  int word(const std::string& stage, std::string_view what, PointKind kind, int preferred,
           std::span<const char* const> words, F&& refusal = {}) {
    if (find(stage, what)) return static_cast<int>(answer(refusal));
    if (listed_ && words.size() > 1) list_words(stage, what, kind, preferred, words);
    return preferred;
  }
  template <class F = AnyValue>
  bool flag(const std::string& stage, std::string_view what, PointKind kind, bool preferred,
            F&& refusal = {}) {
    static constexpr const char* kWords[] = {"no", "yes"};
    return word(stage, what, kind, preferred ? 1 : 0, kWords, refusal) == 1;
  }

  // The decision of that name: what is not among them takes what reasoning prefers.
  const Point* listed(const std::string& stage, std::string_view what) const;

  // No further answer matters.
  bool stopped() const { return asker_ && asker_->stopped(); }

 private:
  // The decision, its index in at_; nullptr when there is none of that name.
  const Point* find(const std::string& stage, std::string_view what);
  std::size_t answer(const Refusal& refusal);
  void list_numbers(const std::string& stage, std::string_view what, PointKind kind,
                    std::int64_t preferred, std::vector<std::int64_t> values);
  void list_words(const std::string& stage, std::string_view what, PointKind kind, int preferred,
                  std::span<const char* const> words);

  const std::vector<Point>* points_ = nullptr;
  std::span<const std::int32_t> choice_;
  std::vector<Point>* listed_ = nullptr;
  Asker* asker_ = nullptr;
  std::size_t next_ = 0, at_ = 0;
  bool all_preferred_ = true;  // the answers so far
  bool bound_ = false;         // to what is preferred: it is beyond the limits already
};

}  // namespace tessera::space
