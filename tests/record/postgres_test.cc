// What only a server does: going away in between, asking for passwords, not being there.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <thread>

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "tessera/trials/record/database.h"
#include "tessera/trials/record/database_name.h"
#include "tessera/trials/record/postgres_session.h"
#include "tessera/trials/record/postgres_text.h"
#include "tessera/trials/record/server_grant.h"
#include "tessera/trials/record/session_summary.h"
#include "tessera/trials/record/statement.h"
#include "tests/record/black_hole.h"
#include "tests/record/sample_records.h"
#include "tests/record/temp_folder.h"
#include "tests/testing/postgres_proxy.h"
#include "tests/testing/postgres_server.h"

namespace tessera::record {
namespace {

using namespace std::chrono_literals;
using tessera::testing::PostgresProxy;
using tessera::testing::PostgresServer;

TEST(DatabaseName, SecretsAreRefusedAndNeverShown) {
  for (const char* url :
       {"postgresql://ada:s3cret@host/db", "postgres://ada:s3cret@host:1/db?sslmode=require",
        "postgresql://ada@host/db?password=s3cret", "postgresql://host/db?user=ada&password=s3cret",
        "postgresql://host/db?pass%77ord=s3cret", "postgresql://host/db?sslpassword=s3cret&a=b",
        "postgresql://host/db?oauth_client_secret=s3cret",
        "postgresql://host/db?a=b&scram_client_key=s3cret", "postgresql://ada:s3c@s3cret@host/db",
        "postgresql://ada:s3?s3cret@host/db", "postgresql://:s3cret@host/db"}) {
    const Result<void> checked = check_server_url(url);
    ASSERT_FALSE(checked.ok()) << url;
    EXPECT_EQ(checked.error().message.find("s3c"), std::string::npos) << checked.error().message;
    EXPECT_NE(checked.error().message.find(".pgpass"), std::string::npos);
    EXPECT_EQ(shown_name(url).find("s3c"), std::string::npos) << shown_name(url);
    const Result<Database> opened = Database::open(url);
    ASSERT_FALSE(opened.ok());
    EXPECT_EQ(opened.error().message, checked.error().message);
    const std::string command = std::string("tune m.onnx --db '") + url + "' --budget 1m";
    EXPECT_EQ(without_secrets(command).find("s3c"), std::string::npos) << without_secrets(command);
    EXPECT_NE(without_secrets(command).find("--budget 1m"), std::string::npos);
  }
}

TEST(DatabaseName, OtherNamesStayAsTheyAre) {
  for (const char* name : {"tessera.db", "a:b@c/d.db", "postgresql://ada@host:5432/db",
                           "postgresql:///db?host=/tmp&user=ada", "postgresql://host/db?a=x@y",
                           "postgresql://ada:@host/db"}) {
    EXPECT_TRUE(check_server_url(name).ok() || !is_server_url(name)) << name;
  }
  EXPECT_EQ(shown_name("a:b@c.db"), "a:b@c.db");
  EXPECT_EQ(shown_name("postgresql://ada@host:5432/db?sslmode=require"),
            "postgresql://ada@host:5432/db?sslmode=require");
  EXPECT_EQ(without_secrets("tune --db a.db"), "tune --db a.db");
}

TEST(PostgresText, AnyBytesComeBack) {
  for (const std::string& text :
       {std::string("plain"), std::string("a\0b", 3), std::string("\x1a"),
        std::string("\x1a"
                    "00"),
        std::string("\xff\xc0\x80"), std::string("\xe4\xb8\xad \xf0\x9f\x98\x80"),
        std::string("\xed\xa0\x80 \xe0\x80\x80 \xf4\x90\x80\x80"), std::string("\xe4\xb8"),
        std::string()}) {
    EXPECT_EQ(from_server_text(to_server_text(text)), text);
    EXPECT_EQ(to_server_text(text).find('\0'), std::string::npos);
  }
  EXPECT_EQ(to_server_text("\xe4\xb8\xad"), "\xe4\xb8\xad");
  EXPECT_EQ(numbered_parameters("a = ? AND b = '?' AND c IN (?, ?)"),
            "a = $1 AND b = '?' AND c IN ($2, $3)");
}

TEST(PostgresLibrary, WithoutItTheMessageSaysWhatToInstall) {
  ::setenv("TESSERA_LIBPQ", "/nowhere/libpq.so.5", 1);
  const Result<Database> database = Database::open("postgresql://127.0.0.1/db");
  ::setenv("TESSERA_LIBPQ", "libz.so.1", 1);
  const Result<Database> wrong = Database::open("postgresql://127.0.0.1/db");
  ::unsetenv("TESSERA_LIBPQ");
  ASSERT_FALSE(database.ok());
  EXPECT_EQ(database.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(database.error().message.find("libpq5"), std::string::npos);
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message.find("no function PQ"), std::string::npos)
      << wrong.error().message;
}

// Where it is installed, tests must not skip what does not start.
TEST(PostgresServerTest, ProgramsThatDoNotStartAreAFailure) {
  if (!PostgresServer::why_absent().empty()) GTEST_SKIP() << PostgresServer::why_absent();
  EXPECT_NONFATAL_FAILURE((void)PostgresServer::start_from("/nowhere"),
                          "server of /nowhere does not start");
}

class PostgresTest : public TempFolder {
 protected:
  void SetUp() override {
    TempFolder::SetUp();
    server_ = PostgresServer::get();
    if (server_ == nullptr) GTEST_SKIP() << PostgresServer::why_absent();
  }

  PostgresServer* server_ = nullptr;
};

std::string database_of(const std::string& url) {
  return url.substr(url.find(":///") + 4, url.find('?') - url.find(":///") - 4);
}

TEST_F(PostgresTest, PasswordsComeFromWhereLibpqLooks) {
  const std::string database = database_of(server_->make_database("shut"));
  server_->sql(database, "CREATE ROLE locked LOGIN PASSWORD 's3cret'; GRANT ALL ON DATABASE " +
                             database + " TO locked");
  const std::string url = server_->url(database, "locked");
  const auto open = [&](const char* password) {
    std::ofstream(path("pass")) << "*:*:*:locked:" << password << "\n";
    std::filesystem::permissions(
        path("pass"), std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
    ::setenv("PGPASSFILE", path("pass").c_str(), 1);
    Result<Database> opened = Database::open(url);
    std::filesystem::remove(path("pass"));
    ::unsetenv("PGPASSFILE");
    return opened;
  };
  const auto begin = std::chrono::steady_clock::now();
  const Result<Database> wrong = open("wr0ng");
  ASSERT_FALSE(wrong.ok());
  EXPECT_EQ(wrong.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(wrong.error().message.find("wr0ng"), std::string::npos) << wrong.error().message;
  EXPECT_NE(wrong.error().message.find("authentication failed"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 20s) << "waiting would not help";
  const Result<Database> right = open("s3cret");
  EXPECT_TRUE(right.ok()) << right.error().message;
}

TEST_F(PostgresTest, EncryptionIsAsTheUrlWantsIt) {
  // Sockets of a folder have none; that it is asked for shows that the URL is libpq's to read.
  const Result<Database> database =
      Database::open(server_->make_database("tls") + "&sslmode=nonsense");
  ASSERT_FALSE(database.ok());
  EXPECT_NE(database.error().message.find("sslmode"), std::string::npos)
      << database.error().message;
}

// The server has the question and vanishes: nothing is unacknowledged, and no answer comes.
TEST_F(PostgresTest, ALineThatFallsSilentIsNoticed) {
  BlackHole hole(*server_);
  ASSERT_TRUE(hole.ok());
  // With the usual times before the first probe; what follows it is shortened.
  const std::string url = hole.url(database_of(server_->make_database("hole"))) +
                          "&keepalives_interval=1&tcp_user_timeout=1000";
  const Result<Connection> connection = Connection::open(url, OpenMode::kCreate);
  ASSERT_TRUE(connection.ok()) << connection.error().message;
  hole.swallow("4711");
  const Result<std::int64_t> answer = connection->query_integer("SELECT 4711");
  ASSERT_TRUE(answer.ok()) << answer.error().message;
  EXPECT_EQ(*answer, 4711) << "on another line";
  EXPECT_EQ(hole.swallowed(), 1) << "the fault did not happen";
  EXPECT_EQ(hole.given_up(), 0) << "it waited until the line was closed";
}

TEST_F(PostgresTest, ProbesOfALineAreAsTheUrlWantsThem) {
  BlackHole hole(*server_);
  ASSERT_TRUE(hole.ok());
  const PostgresLibrary* library = postgres_library().value();
  const auto option = [&](const std::string& more, int name) {
    const auto session =
        PostgresSession::connect(*library, hole.url("postgres") + more, OpenMode::kRead);
    EXPECT_TRUE(session.ok()) << session.error().message;
    int value = -1;
    socklen_t size = sizeof(value);
    const int level = name == SO_KEEPALIVE ? SOL_SOCKET : IPPROTO_TCP;
    const int socket = library->socket((*session)->handle());
    EXPECT_EQ(::getsockopt(socket, level, name, &value, &size), 0);
    return value;
  };
  EXPECT_EQ(option("", TCP_KEEPIDLE), 10);
  EXPECT_EQ(option("", TCP_KEEPINTVL), 5);
  EXPECT_EQ(option("", TCP_KEEPCNT), 3);
  EXPECT_EQ(option("&keepalives_idle=77", TCP_KEEPIDLE), 77);
  EXPECT_EQ(option("&keepalives=0", SO_KEEPALIVE), 0);
}

// What a server says when it lacks something now: the caller may come again.
TEST_F(PostgresTest, WhatTheServerLacksForNowIsNoErrorOfTheCaller) {
  const std::string url = server_->make_database("lacks");
  const Result<Connection> connection = Connection::open(url, OpenMode::kCreate);
  const auto code_of = [&](const std::string& state) {
    return connection
        ->execute("DO $$ BEGIN RAISE 'too much' USING ERRCODE = '" + state + "'; END $$")
        .error()
        .code;
  };
  for (const char* state : {"53000", "53100", "53200", "53300", "57014"})
    EXPECT_EQ(code_of(state), ErrorCode::kUnavailable) << state;
  for (const char* state : {"22012", "23505", "42501"})
    EXPECT_EQ(code_of(state), ErrorCode::kIo) << state;
}

TEST_F(PostgresTest, ADatabaseOfAnotherEncodingIsRefused) {
  server_->sql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0");
  const Result<Database> database = Database::open(server_->url("latin"));
  ASSERT_FALSE(database.ok());
  EXPECT_NE(database.error().message.find("LATIN1"), std::string::npos);
  EXPECT_NE(database.error().message.find("createdb -E UTF8"), std::string::npos);
}

TEST_F(PostgresTest, AForeignSchemaIsLeftAlone) {
  const std::string url = server_->make_database("foreign");
  server_->sql(database_of(url), "CREATE SCHEMA tessera; CREATE TABLE tessera.birds (name TEXT)");
  const Result<Database> database = Database::open(url);
  ASSERT_FALSE(database.ok());
  EXPECT_NE(database.error().message.find("another program"), std::string::npos);
}

TEST_F(PostgresTest, TablesOfOthersBesideOursDoNotMatter) {
  const std::string url = server_->make_database("beside");
  server_->sql(database_of(url), "CREATE TABLE records (mine INT)");
  Result<Database> database = Database::open(url);
  ASSERT_TRUE(database.ok()) << database.error().message;
  ASSERT_TRUE(database->append({sample_record(1)}).ok());
  EXPECT_EQ(server_->sql(database_of(url), "SELECT count(*) FROM public.records"), "0");
}

TEST_F(PostgresTest, TheServerMayCrashInBetween) {
  const std::string url = server_->make_database("crash");
  Result<Database> database = Database::open(url);
  ASSERT_TRUE(database->append({sample_record(1)}).ok());
  for (int round = 0; round < 3; ++round) {
    server_->crash();
    Result<void> done;
    std::thread writer([&] {
      done = database->append({sample_record(2), sample_record(3 + round)});
    });
    std::this_thread::sleep_for(200ms);
    EXPECT_TRUE(server_->start());
    writer.join();
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(*database->count({}), 1 + 2 * (round + 1));
  }
  // What the cache of ids says is what the server has.
  const Result<Database> fresh = Database::open_read_only(url);
  std::int64_t read = 0;
  ASSERT_TRUE(
      fresh->visit({}, [&](const Record& r) { return read += r.schedule.empty() ? 0 : 1; }).ok());
  EXPECT_EQ(read, 7);
}

TEST_F(PostgresTest, PatienceEndsAndTheDatabaseStaysUsable) {
  const std::string url = server_->make_database("gone");
  Result<Database> database = Database::open(url, 0, 300ms);
  ASSERT_TRUE(database->append({sample_record(1)}).ok());
  server_->crash();
  const Result<void> done = database->append({sample_record(2)});
  const Result<Database> other = Database::open(url);
  ASSERT_TRUE(server_->start());
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  ASSERT_FALSE(other.ok()) << "a first connection does not wait";
  ASSERT_TRUE(database->append({sample_record(2)}).ok());
  EXPECT_EQ(*database->count({}), 2);
}

TEST_F(PostgresTest, PatienceIsNotMultipliedWhenATransactionLosesItsServer) {
  const std::string url = server_->make_database("lost");
  ASSERT_TRUE(Database::open(url).ok());
  Result<Connection> connection = Connection::open(url, OpenMode::kCreate, 1s);
  ASSERT_TRUE(connection.ok());
  const auto begin = std::chrono::steady_clock::now();
  int runs = 0;
  const Result<void> done = connection->transact([&] {
    if (++runs == 1) server_->crash();
    return connection->execute("INSERT INTO texts (text) VALUES ('a')");
  });
  const auto taken = std::chrono::steady_clock::now() - begin;
  ASSERT_TRUE(server_->start());
  ASSERT_FALSE(done.ok());
  EXPECT_EQ(done.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(runs, 1);
  EXPECT_LT(taken, 5s);
}

// A server that crashed before it wrote anything of a transaction does not know its number.
TEST_F(PostgresTest, ATransactionThatTheServerForgotIsRepeated) {
  const std::string url = server_->make_database("forgot");
  Result<Database> database = Database::open(url);
  ASSERT_TRUE(database->append({sample_record(1)}).ok());
  Result<Connection> connection = Connection::open(url, OpenMode::kCreate);
  int runs = 0;
  const Result<void> done = connection->transact([&]() -> Result<void> {
    TESSERA_DO(connection->execute("UPDATE records SET seconds = seconds + 1"));
    if (++runs > 1) return {};
    server_->crash();
    EXPECT_TRUE(server_->start());
    return {};
  });
  ASSERT_TRUE(done.ok()) << done.error().message;
  EXPECT_EQ(runs, 2);
  const std::string added = server_->sql(
      database_of(url),
      fmt::format("SELECT round(seconds - {}) FROM tessera.records", sample_record(1).seconds));
  EXPECT_EQ(added, "1");
}

// A crash can give a number again, so that the server says "committed" of another's transaction.
TEST_F(PostgresTest, ANumberThatAnotherWasGivenAfterACrashIsNoProof) {
  const std::string url = server_->make_database("number");
  const std::string name = database_of(url);
  ASSERT_TRUE(Database::open(url).ok());
  Result<Connection> connection = Connection::open(url, OpenMode::kCreate);
  // The pages are written once: what the crash loses is then a few bytes that nobody wrote. Now and
  // then the server writes them in time.
  ASSERT_TRUE(connection->execute("INSERT INTO texts (text) VALUES ('before')").ok());
  int asked = 0;
  for (int round = 0; round < 5 && asked == 0; ++round) {
    const std::string where = fmt::format("texts WHERE text = 'ours{}'", round);
    int runs = 0;
    std::int64_t number = 0;
    const auto work = [&]() -> Result<void> {
      TESSERA_DO(
          connection->execute(fmt::format("INSERT INTO texts (text) VALUES ('ours{}')", round)));
      if (++runs > 1) return {};
      TESSERA_TRY(number, connection->query_integer("SELECT pg_current_xact_id()::text::bigint"));
      server_->crash();
      EXPECT_TRUE(server_->start());
      for (int i = 0; i < 50; ++i) {
        if (std::stoll(server_->sql(name, "SELECT pg_current_xact_id()")) >= number) break;
      }
      return {};
    };
    const Result<void> done = connection->transact(work, [&]() -> Result<bool> {
      ++asked;
      EXPECT_EQ(server_->sql(name, fmt::format("SELECT pg_xact_status('{}')", number)),
                "committed");
      TESSERA_TRY(const std::int64_t there,
                  connection->query_integer("SELECT count(*) FROM " + where));
      return there > 0;
    });
    ASSERT_TRUE(done.ok()) << done.error().message;
    EXPECT_EQ(runs, 2);
    EXPECT_EQ(server_->sql(name, "SELECT count(*) FROM tessera." + where), "1");
  }
  EXPECT_EQ(asked, 1) << "the number was not given again";
}

// The worst moment to lose a connection: nobody knows whether the server wrote the batch.
TEST_F(PostgresTest, ALostCommitIsNeitherLostNorDoubled) {
  const std::string direct = server_->make_database("cut");
  PostgresProxy proxy(*server_);
  Result<Database> database = Database::open(proxy.url(database_of(direct)));
  ASSERT_TRUE(database.ok()) << database.error().message;
  int batches = 0;
  for (const PostgresProxy::Cut cut :
       {PostgresProxy::Cut::kBeforeCommit, PostgresProxy::Cut::kAfterCommit,
        PostgresProxy::Cut::kAfterCommit, PostgresProxy::Cut::kBeforeCommit}) {
    proxy.cut(cut);
    const Result<void> done =
        database->append({sample_record(10 * batches + 1), sample_record(10 * batches + 2)});
    ASSERT_TRUE(done.ok()) << done.error().message;
    ++batches;
    EXPECT_EQ(proxy.cuts(), batches) << "the fault did not happen";
    EXPECT_EQ(*Database::open_read_only(direct)->count({}), 2 * batches);
  }
}

TEST_F(PostgresTest, TenAtOnceMakeTheTables) {
  const std::string url = server_->make_database("ten");
  std::vector<std::thread> threads;
  std::atomic<int> made = 0;
  for (int i = 0; i < 10; ++i) {
    threads.emplace_back([&] {
      Result<Database> database = Database::open(url);
      if (database.ok() && database->append({sample_record(1)}).ok()) ++made;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, 10);
  EXPECT_EQ(*Database::open_read_only(url)->count({}), 10);
}

TEST_F(PostgresTest, ARoleMayAddAndNothingElse) {
  const std::string url = server_->make_database("grant");
  const std::string name = database_of(url);
  ASSERT_TRUE(Database::open(url)->append({sample_record(1)}).ok());
  server_->sql(name, "CREATE ROLE \"a \"\"b\" LOGIN");
  const std::string as_role = server_->url(name, "a%20%22b");
  EXPECT_FALSE(Database::open(as_role).ok());
  ASSERT_EQ(server_->sql(name, grant_sql("a \"b")), "done");
  Result<Database> database = Database::open(as_role);
  ASSERT_TRUE(database.ok()) << database.error().message;
  const Result<std::int64_t> session = database->begin_session({.model = "m"});
  ASSERT_TRUE(session.ok()) << session.error().message;
  ASSERT_TRUE(database->add_tasks({{.key = "k"}}).ok());
  ASSERT_TRUE(database->append({sample_record(2)}).ok());
  ASSERT_TRUE(keep_session_summary(as_role, *session, "1").ok());
  ASSERT_TRUE(keep_session_summary(as_role, *session, "2").ok());
  ASSERT_TRUE(database->end_session(*session, "done").ok());
  const Result<Pruned> pruned = database->prune({.before = 2'000'000'000}, false);
  ASSERT_FALSE(pruned.ok());
  EXPECT_NE(pruned.error().message.find("db grant"), std::string::npos) << pruned.error().message;
  EXPECT_FALSE(
      database->update([](const TaskRow& t) { return t; }, [](Record* r) { r->task = "other"; })
          .ok());
  EXPECT_EQ(*database->count({}), 2);
}

TEST_F(PostgresTest, RowsAreReadAsTheyCome) {
  const std::string url = server_->make_database("rows");
  Result<Database> database = Database::open(url);
  std::vector<Record> records;
  for (int i = 0; i < 3000; ++i) records.push_back(sample_record(i % 50));
  ASSERT_TRUE(database->append(records).ok());
  // Stopping early, then reading on another connection, and writing in between.
  for (int round = 0; round < 20; ++round) {
    int seen = 0;
    ASSERT_TRUE(database->visit({}, [&](const Record&) { return ++seen < 5 + round; }).ok());
    EXPECT_EQ(seen, 5 + round);
  }
  EXPECT_EQ(*database->count({}), 3000);
  EXPECT_LT(std::stoi(server_->sql("postgres",
                                   "SELECT count(*) FROM pg_stat_activity WHERE "
                                   "datname = '" +
                                       database_of(url) + "'")),
            8);
}

}  // namespace
}  // namespace tessera::record
