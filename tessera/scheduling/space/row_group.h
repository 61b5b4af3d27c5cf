// Stages that can be computed row by row with another one.
#pragma once

#include <map>
#include <vector>

#include "tessera/scheduling/space/context.h"

namespace tessera::space {

using AxisMap = std::vector<int>;  // per axis of the nest: the axis of a member, or -1

// The stages that can be computed row by row with the nest, and how their axes meet its axes.
class RowGroup {
 public:
  RowGroup(const Context& context, std::size_t nest);

  std::vector<std::size_t> members() const;
  const AxisMap& map(std::size_t stage) const { return maps_.at(stage); }
  // Axes of the nest that every member has.
  std::vector<std::size_t> rows() const;

 private:
  void try_member(std::size_t i);

  const Context& context_;
  std::size_t nest_;
  std::map<std::size_t, AxisMap> maps_;
};

}  // namespace tessera::space
