// The cheapest two-colouring of a network of yes/no choices: a minimum cut.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::plan {

class MinCut {
 public:
  static constexpr std::int64_t kNever = std::int64_t{1} << 60;
  using Choice = std::int32_t;

  MinCut();
  Choice no() const { return 0; }   // the choice that is always no
  Choice yes() const { return 1; }  // ... always yes
  Choice add();

  // `cost` is paid when `a` is no and `b` is yes.
  void add_cost(Choice a, Choice b, std::int64_t cost);

  // Solves; returns the total paid. Among equal solutions the one with most yes.
  std::int64_t solve();
  bool is_yes(Choice c) const { return level_[static_cast<std::size_t>(c)] < 0; }

 private:
  struct Edge {
    Choice to;
    std::int64_t room;
    std::size_t back;  // index of the reverse edge in edges_[to]
  };
  bool find_levels();
  std::int64_t push_path();

  std::vector<std::vector<Edge>> edges_;
  std::vector<std::int32_t> level_;
  std::vector<std::size_t> next_;
};

}  // namespace tessera::plan
