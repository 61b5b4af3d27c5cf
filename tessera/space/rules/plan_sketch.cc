#include "tessera/space/rules/plan_sketch.h"

#include <algorithm>
#include <cctype>
#include <iterator>

namespace tessera::space {
namespace {

// Vector operations of a part in all the places its consumer copies it to.
constexpr std::int64_t kMaxCopied = 96;
// ... and of the consumer, cut by conditions.
constexpr std::int64_t kMaxCut = 480;

}  // namespace

PlanSketch::PlanSketch(std::string name, schedule::Schedule fixed) : fixed_(std::move(fixed)) {
  name_ = std::move(name);
}

const PlanSketch::Member* PlanSketch::member_of(std::size_t stage) const {
  for (const Member& m : members_) {
    if (std::find(m.stages.begin(), m.stages.end(), stage) != m.stages.end()) return &m;
  }
  return nullptr;
}

std::size_t PlanSketch::index_of(const Member& member) const {
  return static_cast<std::size_t>(&member - members_.data());
}

bool PlanSketch::can_move(const std::vector<std::size_t>& users) const {
  const Member* first = users.empty() ? nullptr : member_of(users[0]);
  if (!first) return false;
  return std::all_of(users.begin(), users.end(), [&](std::size_t u) {
    const Member* m = member_of(u);
    if (!m || m->nest != first->nest) return false;
    return m->nest != index_of(*m) || m->part->depth_of(u) > 0;
  });
}

// Names of stages come from models: what a decision may not contain becomes '_'.
void PlanSketch::add_decision(Decision decision) {
  for (char& c : decision.name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.') c = '_';
  }
  const std::string name = decision.name;
  const auto taken = [&](const Decision& d) { return d.name == decision.name; };
  for (int n = 2; std::any_of(decisions_.begin(), decisions_.end(), taken); ++n)
    decision.name = name + "_" + std::to_string(n);
  decisions_.push_back(std::move(decision));
}

void PlanSketch::add_place(const std::string& name, const std::vector<std::size_t>& users,
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
  member->place = static_cast<int>(decisions_.size());
  // Rows are made where they are used; copies of whole operands once.
  const bool rows = std::find(names.begin(), names.end(), "row") != names.end();
  add_decision(word_decision(name + ".at", DecisionKind::kLocation, std::move(words),
                             rows ? static_cast<std::int32_t>(member->deepest) : 0));
}

void PlanSketch::add(std::unique_ptr<Part> part, const std::string& name,
                     const std::vector<std::size_t>& stages, const std::vector<std::size_t>& users,
                     bool may_move) {
  Member member{.part = std::move(part), .stages = stages, .inside = {}};
  member.first = decisions_.size();
  member.nest = members_.size();
  for (const Decision& d : member.part->decisions()) add_decision(d);
  if (may_move && can_move(users)) add_place(name, users, &member);
  members_.push_back(std::move(member));
}

bool PlanSketch::finish() {
  const auto legal = [&] {
    std::vector<std::int32_t> choice;
    for (const Decision& d : decisions_) choice.push_back(d.preferred);
    return check(choice).ok();
  };
  if (legal()) return true;
  for (const Member& m : members_) {
    if (m.place >= 0) decisions_[static_cast<std::size_t>(m.place)].preferred = 0;
  }
  return legal();
}

Choice PlanSketch::slice(const Member& member, Choice choice) const {
  return choice.subspan(member.first, member.part->decisions().size());
}

Result<void> PlanSketch::check(Choice choice) const {
  for (const Member& m : members_) {
    for (const std::size_t user : m.inside) {
      if (place(m, choice) <= place(members_[user], choice)) continue;
      return make_error(ErrorCode::kIllegalSchedule, "a stage is computed inside of its use");
    }
    TESSERA_DO(m.part->check(slice(m, choice)));
    if (place(m, choice) > 0) TESSERA_DO(check_inside(m, choice));
  }
  return {};
}

// A consumer copies what it contains; padding copies the consumer in turn.
Result<void> PlanSketch::check_inside(const Member& member, Choice choice) const {
  const Member& around = members_[member.nest];
  const Part& part = *around.part;
  const std::int64_t copies = part.copies(slice(around, choice));
  const std::int64_t own = copies * member.part->code(slice(member, choice));
  const auto levels = static_cast<std::size_t>(place(member, choice));
  const std::int64_t cut =
      member.part->pads() ? padding_copies(levels) * part.code(slice(around, choice)) : 0;
  if (own <= kMaxCopied && cut <= kMaxCut) return {};
  return make_error(ErrorCode::kIllegalSchedule, "{} operations inside of {} copies", own, copies);
}

void PlanSketch::settle(std::span<std::int32_t> choice) const {
  for (const Member& m : members_) {
    const std::size_t count = m.part->decisions().size();
    m.part->settle(choice.subspan(m.first, count), place(m, choice) > 0);
  }
}

Result<schedule::Schedule> PlanSketch::write(Choice choice) const {
  TESSERA_DO(check(choice));
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
