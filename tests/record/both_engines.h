// Tests that run on each engine: a SQLite file, and a database of a real PostgreSQL server.
#pragma once

#include <map>
#include <string>

#include <gtest/gtest.h>

#include "tessera/trials/record/database.h"
#include "tests/record/temp_folder.h"
#include "tests/testing/postgres_server.h"

namespace tessera::record {

enum class EngineKind { kSqlite, kPostgres };

class BothEngines : public TempFolder, public ::testing::WithParamInterface<EngineKind> {
 protected:
  void SetUp() override {
    TempFolder::SetUp();
    if (server() && tessera::testing::PostgresServer::get() == nullptr) {
      GTEST_SKIP() << tessera::testing::PostgresServer::why_absent();
    }
  }

  static bool server() { return GetParam() == EngineKind::kPostgres; }

  // What --db takes; the same for the same name.
  std::string place(const std::string& name) {
    if (!server()) return path(name + ".db");
    std::string& url = urls_[name];
    if (url.empty()) url = tessera::testing::PostgresServer::get()->make_database(name);
    return url;
  }

 private:
  std::map<std::string, std::string> urls_;
};

inline std::vector<Record> all_records(const Database& database, const Filter& filter = {}) {
  std::vector<Record> records;
  const Result<void> visited = database.visit(filter, [&](const Record& r) {
    records.push_back(r);
    return true;
  });
  EXPECT_TRUE(visited.ok()) << visited.error().message;
  return records;
}

inline std::string engine_name(const ::testing::TestParamInfo<EngineKind>& info) {
  return info.param == EngineKind::kSqlite ? "Sqlite" : "Postgres";
}

}  // namespace tessera::record
