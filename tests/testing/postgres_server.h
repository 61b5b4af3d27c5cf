// A real PostgreSQL server of a test's own: on a Unix socket in a temporary folder, as a user who
// is not root, gone with the test.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

namespace tessera::testing {

class PostgresServer {
 public:
  // Of this process, started by the first who asks; null where none is installed, or where root may
  // not become another user, which it needs: why_absent() says so. One that is installed and does
  // not start is a failure of every test that asks.
  static PostgresServer* get();
  static std::string why_absent();
  // By the programs of a folder; null and a failure where it does not start.
  static std::unique_ptr<PostgresServer> start_from(const std::string& programs);

  ~PostgresServer();
  PostgresServer(const PostgresServer&) = delete;
  PostgresServer& operator=(const PostgresServer&) = delete;

  // An empty database, and the URL of one. Only the role "locked" needs a password.
  std::string make_database(const std::string& name);
  std::string url(const std::string& database, const std::string& user = "tessera") const;
  // Its last line of output; empty when it failed.
  std::string sql(const std::string& database, const std::string& statement) const;

  const std::string& folder() const { return folder_; }  // of its socket
  // The server ends with the thread that started it.
  bool start();
  // As after kill -9: nothing is written before it ends.
  void crash();
  // Ends once nobody is connected to it any more, whom it sends away.
  void stop();

 private:
  PostgresServer() = default;
  bool make(const std::string& programs);
  std::string log() const;
  bool answers() const;
  void end(int signal);

  std::string folder_, programs_;
  pid_t process_ = 0;
  int databases_ = 0;
};

}  // namespace tessera::testing
