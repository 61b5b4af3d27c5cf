// Databases that someone made to do more than hold rows.
#include <filesystem>

#include <gtest/gtest.h>
#include <sqlite3.h>

#include "tessera/trials/record/database.h"
#include "tessera/trials/record/statement.h"
#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"

namespace tessera::record {
namespace {

class HostileDatabase : public TempFolder {
 protected:
  // One record, then what a stranger adds with his own tools.
  std::string made(const char* sql) {
    const std::string file = path("a.db");
    std::filesystem::remove(file);
    {
      Database database = Database::open(file).value();
      EXPECT_TRUE(database.add_tasks({{"k1", "matmul", "dag matmul", 1, 2}}).ok());
      EXPECT_TRUE(database.append({sample_record(1)}).ok());
    }
    sqlite3* handle = nullptr;
    EXPECT_EQ(sqlite3_open(file.c_str(), &handle), SQLITE_OK);
    char* error = nullptr;
    EXPECT_EQ(sqlite3_exec(handle, sql, nullptr, nullptr, &error), SQLITE_OK)
        << (error != nullptr ? error : "");
    sqlite3_free(error);
    sqlite3_close(handle);
    return file;
  }
};

TEST_F(HostileDatabase, TriggersDoNotFire) {
  const std::string file = made(
      "CREATE TRIGGER wipe AFTER INSERT ON records BEGIN DELETE FROM records; END;"
      "CREATE TRIGGER forge AFTER INSERT ON tasks BEGIN UPDATE tasks SET definition = 'x'; END;");
  Database database = Database::open(file).value();
  ASSERT_TRUE(database.append({sample_record(2), sample_record(3)}).ok());
  ASSERT_TRUE(database.add_tasks({{"k2", "conv", "dag conv", 1, 2}}).ok());
  EXPECT_EQ(database.count({}).value(), 3);
  EXPECT_EQ(database.tasks().value()[0].definition, "dag matmul");
}

TEST_F(HostileDatabase, ViewsAreNotRead) {
  const std::string file = made(
      "DROP TABLE tasks; CREATE VIEW tasks AS SELECT 1 AS id, 'k' AS key, 'n' AS name,"
      " 'd' AS definition, 1 AS flops, 1 AS bytes;");
  const Database database = Database::open_read_only(file).value();
  const auto tasks = database.tasks();
  ASSERT_FALSE(tasks.ok());
  EXPECT_NE(tasks.error().message.find("tasks"), std::string::npos) << tasks.error().message;
  EXPECT_EQ(database.count({}).value(), 1);
}

// Reading it would never end.
TEST_F(HostileDatabase, EndlessViewsAreNotRead) {
  const std::string file = made(
      "DROP TABLE tasks;"
      "CREATE VIEW tasks AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)"
      " SELECT i AS id, 'k' AS key, 'n' AS name, 'd' AS definition, 1 AS flops, 1 AS bytes FROM "
      "n;");
  EXPECT_FALSE(Database::open_read_only(file)->tasks().ok());
}

// A view in the place of what is looked at first makes it no database of ours.
TEST_F(HostileDatabase, ViewsAreNoTables) {
  const std::string file = made("DROP TABLE records; CREATE VIEW records AS SELECT 1 AS id;");
  for (const auto& opened : {Database::open_read_only(file), Database::open(file)}) {
    ASSERT_FALSE(opened.ok());
    EXPECT_NE(opened.error().message.find("another program"), std::string::npos);
  }
}

TEST_F(HostileDatabase, ValuesAreBounded) {
  const Connection connection = Connection::open(path("b.db"), Connection::Mode::kCreate).value();
  EXPECT_EQ(connection.query_integer("PRAGMA trusted_schema").value(), 0);
  EXPECT_EQ(connection.query_integer("PRAGMA cell_size_check").value(), 1);
  EXPECT_EQ(connection.query_integer("SELECT length(zeroblob(1000000))").value(), 1000000);
  const auto large = connection.query_integer("SELECT length(zeroblob(100000000))");
  ASSERT_FALSE(large.ok());
  EXPECT_NE(large.error().message.find("too big"), std::string::npos) << large.error().message;
  EXPECT_FALSE(connection
                   .execute("PRAGMA writable_schema = ON;"
                            "UPDATE sqlite_master SET sql = 'x'")
                   .ok());
  EXPECT_FALSE(connection.execute("ATTACH ':memory:' AS other").ok());
}

}  // namespace
}  // namespace tessera::record
