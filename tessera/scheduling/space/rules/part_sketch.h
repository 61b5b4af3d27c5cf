// A sketch made of parts, and where each part is computed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/scheduling/space/rules/part.h"
#include "tessera/scheduling/space/sketch.h"

namespace tessera::space {

class PartSketch final : public Sketch {
 public:
  // `fixed`: the steps that no decision changes, which come first.
  PartSketch(std::string name, schedule::Schedule fixed);

  // Consumers first. `stages` are written by the part; `users` read them. Where all users lie in
  // the loops of one part, and `may_move`, the place becomes a decision `name`.at.
  void add(std::unique_ptr<Part> part, const std::string& name,
           const std::vector<std::size_t>& stages, const std::vector<std::size_t>& users,
           bool may_move);

  // To be called after the last part: where preferred places are illegal together, all parts are
  // preferred by themselves. False if that is illegal, too.
  bool finish();

  // True if a part for a stage with these users could be computed inside another.
  bool can_move(const std::vector<std::size_t>& users) const;

  void walk(Asker& asker) const override;
  Result<schedule::Schedule> write(Choice choice) const override;

 private:
  struct Member {
    std::unique_ptr<Part> part;
    std::vector<std::size_t> stages;
    std::vector<int> decisions;       // per decision of the part: that of the sketch, or -1
    std::size_t nest = 0;             // the member in whose loops it may be computed, or itself
    int place = -1;                   // the decision of where; -1: by itself
    std::size_t deepest = 0;          // anchors that it may take
    std::vector<std::size_t> inside;  // members that must lie at least as deep
  };

  const Member* member_of(std::size_t stage) const;
  std::size_t index_of(const Member& member) const;
  void add_place(const std::string& name, const std::vector<std::size_t>& users, Member* member);
  void add_decision(Point decision);
  // While the sketch is walked: the places and the choices of the members so far.
  struct Path {
    std::vector<std::int32_t> places;
    std::vector<std::vector<std::int32_t>> choices;
  };
  const char* refuse_place(const Member& member, std::int32_t place, const Path& path) const;
  // Vector operations that a part may have in the loops of the one around it.
  std::int64_t most_code(const Member& member, const Path& path) const;
  std::vector<std::int32_t> slice(const Member& member, Choice choice) const;
  std::int32_t place(const Member& member, Choice choice) const {
    return member.place < 0 ? 0 : choice[static_cast<std::size_t>(member.place)];
  }

  schedule::Schedule fixed_;
  std::vector<Member> members_;
};

}  // namespace tessera::space
