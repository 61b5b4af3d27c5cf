// All records of a database, for tests that look at them one by one.
#pragma once

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tessera/trials/record/database.h"

namespace tessera::app {

inline std::vector<record::Record> read_records(const std::string& path,
                                                const record::Filter& filter = {}) {
  std::vector<record::Record> records;
  const auto database = record::Database::open_read_only(path);
  EXPECT_TRUE(database.ok()) << path;
  if (!database.ok()) return records;
  const Result<void> visited = database->visit(filter, [&](const record::Record& r) {
    records.push_back(r);
    return true;
  });
  EXPECT_TRUE(visited.ok()) << path;
  return records;
}

}  // namespace tessera::app
