#include "tessera/scheduling/space/rules/part_sketch.h"

#include <algorithm>
#include <cctype>
#include <iterator>

#include "tessera/scheduling/space/limits.h"

namespace tessera::space {
PartSketch::PartSketch(std::string name, schedule::Schedule fixed) : fixed_(std::move(fixed)) {
  name_ = std::move(name);
}

const PartSketch::Member* PartSketch::member_of(std::size_t stage) const {
  for (const Member& m : members_) {
    if (std::find(m.stages.begin(), m.stages.end(), stage) != m.stages.end()) return &m;
  }
  return nullptr;
}

std::size_t PartSketch::index_of(const Member& member) const {
  return static_cast<std::size_t>(&member - members_.data());
}

bool PartSketch::can_move(const std::vector<std::size_t>& users) const {
  const Member* first = users.empty() ? nullptr : member_of(users[0]);
  if (!first) return false;
  return std::all_of(users.begin(), users.end(), [&](std::size_t u) {
    const Member* m = member_of(u);
    if (!m || m->nest != first->nest) return false;
    return m->nest != index_of(*m) || m->part->depth_of(u) > 0;
  });
}

// Names of stages come from models: what a decision may not contain becomes '_'.
void PartSketch::add_decision(Point decision) {
  for (char& c : decision.name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  const std::string name = decision.name;
  const auto taken = [&](const Point& d) { return d.name == decision.name; };
  for (int n = 2; std::any_of(points_.begin(), points_.end(), taken); ++n)
    decision.name = name + "_" + std::to_string(n);
  points_.push_back(std::move(decision));
}

void PartSketch::add_place(const std::string& name, const std::vector<std::size_t>& users,
                           Member* member) {
  member->nest = member_of(users[0])->nest;
  const Part& around = *members_[member->nest].part;
  member->deepest = around.anchor_names().size();
  for (const std::size_t u : users) {
    const Member* m = member_of(u);
    if (m->place < 0) {
      member->deepest = std::min(member->deepest, m->part->depth_of(u));
    } else {
      member->inside.push_back(index_of(*m));
      member->deepest = std::min(member->deepest, m->deepest);
    }
  }
  std::vector<std::string> words = {"root"};
  const auto& names = around.anchor_names();
  words.insert(words.end(), names.begin(),
               names.begin() + static_cast<std::ptrdiff_t>(member->deepest));
  member->place = static_cast<int>(points_.size());
  // Rows are made where they are used; copies of whole operands once.
  const bool rows = std::find(names.begin(), names.end(), "row") != names.end();
  add_decision(word_decision(name + ".at", PointKind::kLocation, std::move(words),
                             rows ? static_cast<std::int32_t>(member->deepest) : 0));
}

void PartSketch::add(std::unique_ptr<Part> part, const std::string& name,
                     const std::vector<std::size_t>& stages, const std::vector<std::size_t>& users,
                     bool may_move) {
  Member member{.part = std::move(part), .stages = stages, .decisions = {}, .inside = {}};
  member.nest = members_.size();
  const std::vector<Point>& decisions = member.part->points();
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    member.decisions.push_back(member.part->open(i) ? static_cast<int>(points_.size()) : -1);
    if (member.part->open(i)) add_decision(decisions[i]);
  }
  if (may_move && can_move(users)) add_place(name, users, &member);
  members_.push_back(std::move(member));
}

bool PartSketch::finish() {
  const auto legal = [&] {
    std::vector<std::int32_t> choice;
    for (const Point& d : points_) choice.push_back(d.preferred);
    return check(choice).ok();
  };
  for (const Member& m : members_) {
    if (!m.part->legal(m.part->preferred())) return false;
  }
  if (legal()) return true;
  for (const Member& m : members_) {
    if (m.place >= 0) points_[static_cast<std::size_t>(m.place)].preferred = 0;
  }
  return legal();
}

std::vector<std::int32_t> PartSketch::slice(const Member& member, Choice choice) const {
  std::vector<std::int32_t> out = member.part->preferred();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (const int d = member.decisions[i]; d >= 0) out[i] = choice[static_cast<std::size_t>(d)];
  }
  return out;
}

namespace {

// Questions of a part as questions of the sketch.
class MemberAsker final : public Asker {
 public:
  MemberAsker(const std::vector<int>& decisions, Asker& asker)
      : points_(decisions), asker_(asker) {}
  std::int32_t ask(std::size_t decision, const Refusal& refusal) override {
    const int d = points_[decision];
    return d < 0 ? 0 : asker_.ask(static_cast<std::size_t>(d), refusal);
  }
  bool stopped() const override { return asker_.stopped(); }

 private:
  const std::vector<int>& points_;
  Asker& asker_;
};

}  // namespace

// Places come before what a part decides: it may be anything that fits there. A part by itself
// always fits, so that consumers need not look ahead.
void PartSketch::walk(Asker& asker) const {
  Path path{.places = std::vector<std::int32_t>(members_.size(), 0), .choices = {}};
  path.choices.reserve(members_.size());
  for (std::size_t i = 0; i < members_.size() && !asker.stopped(); ++i) {
    const Member& m = members_[i];
    if (m.place >= 0) {
      path.places[i] = asker.ask(static_cast<std::size_t>(m.place),
                                 [&](std::int32_t v) { return refuse_place(m, v, path); });
    }
    Place place;
    if (path.places[i] > 0) place = {.inside = true, .most_code = most_code(m, path)};
    path.choices.push_back(m.part->preferred());
    MemberAsker member(m.decisions, asker);
    m.part->walk(path.choices.back(), place, member);
  }
}

std::int64_t PartSketch::most_code(const Member& member, const Path& path) const {
  return limits::kCopied / members_[member.nest].part->copies(path.choices[member.nest]);
}

// A consumer copies what it contains; padding copies the consumer in turn.
const char* PartSketch::refuse_place(const Member& member, std::int32_t place,
                                     const Path& path) const {
  if (place == 0) return nullptr;
  for (const std::size_t user : member.inside) {
    if (place > path.places[user]) return "a stage is computed inside of its use";
  }
  if (member.part->least_code() > most_code(member, path)) return "too many copies of the stage";
  const std::int64_t around = members_[member.nest].part->code(path.choices[member.nest]);
  const bool cut = member.part->pads() &&
                   padding_copies(static_cast<std::size_t>(place)) * around > limits::kCut;
  return cut ? "conditions of the stage cut too much code" : nullptr;
}

Result<schedule::Schedule> PartSketch::write(Choice choice) const {
  Writer writer;
  std::vector<std::vector<Anchor>> anchors(members_.size());
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const Member& m = members_[i];
    const std::int32_t at = place(m, choice);
    const Anchor* anchor = at > 0 ? &anchors[m.nest][static_cast<std::size_t>(at) - 1] : nullptr;
    anchors[i] = m.part->write(slice(m, choice), anchor, writer);
  }
  schedule::Schedule out = fixed_;
  std::vector<schedule::Step> steps = std::move(writer).take().steps;
  out.steps.insert(out.steps.end(), std::make_move_iterator(steps.begin()),
                   std::make_move_iterator(steps.end()));
  return out;
}

}  // namespace tessera::space
