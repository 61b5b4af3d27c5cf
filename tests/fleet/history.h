// What a queue kept of its trials, checked: nothing lost, nothing counted twice.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tessera/trials/fleet/queue.h"

namespace tessera::fleet {

// The first thing that is wrong; empty: nothing. `finished`: every trial must have a result.
inline std::string fault_of_history(const std::string& place, bool finished) {
  const auto connection = record::Connection::open(place, record::OpenMode::kRead);
  if (!connection.ok()) return connection.error().message;
  const auto rows = [&](const char* sql, int columns) {
    std::vector<std::vector<std::int64_t>> out;
    auto select = connection->prepare(sql).value();
    while (select.step().value()) {
      auto& row = out.emplace_back();
      for (int i = 0; i < columns; ++i) row.push_back(select.integer(i));
    }
    return out;
  };
  std::map<std::int64_t, std::int64_t> last;  // attempt that was claimed, by trial
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> owner;  // of an attempt
  for (const auto& a : rows("SELECT trial, attempt, agent, outcome FROM attempts ORDER BY trial, "
                            "attempt",
                            4)) {
    if (a[1] != last[a[0]] + 1) return fmt::format("trial {} has no attempt before {}", a[0], a[1]);
    last[a[0]] = a[1];
    owner[{a[0], a[1]}] = a[2];
  }
  for (const auto& [key, agent] : owner) {
    const auto open = rows(fmt::format("SELECT count(*) FROM attempts WHERE trial = {} AND attempt "
                                       "< {} AND outcome = 0",
                                       key.first, last[key.first])
                               .c_str(),
                           1);
    if (open[0][0] != 0) {
      return fmt::format("trial {} was claimed while an attempt was open or done", key.first);
    }
  }
  std::set<std::int64_t> counted;
  for (const auto& r : rows("SELECT id, reported, reporter FROM trials WHERE state IN (2, 3)", 3)) {
    counted.insert(r[0]);
    if (r[1] == 0) continue;  // given up
    if (!owner.contains({r[0], r[1]}) || owner[{r[0], r[1]}] != r[2]) {
      return fmt::format("the result of trial {} is of an attempt that its agent never had", r[0]);
    }
    if (r[1] != last[r[0]]) {
      return fmt::format("the result of trial {} is of attempt {}, {} was claimed", r[0], r[1],
                         last[r[0]]);
    }
  }
  for (const auto& t : rows("SELECT id, state, reported FROM trials ORDER BY id", 3)) {
    if (t[1] == 4 && t[2] != 0) return fmt::format("trial {} was cancelled and counted", t[0]);
    if (t[1] == 2 && t[2] == 0) return fmt::format("trial {} is done by nobody", t[0]);
    if (finished && t[1] < 2) return fmt::format("trial {} has no result", t[0]);
  }
  return "";
}

}  // namespace tessera::fleet
