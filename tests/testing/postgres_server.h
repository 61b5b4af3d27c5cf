// A real PostgreSQL server of a test's own: on a Unix socket in a temporary folder, as a user who
// is not root, gone with the test.
#pragma once

#include <memory>
#include <string>

#include <sys/types.h>

namespace tessera::testing {

class PostgresServer {
 public:
  // Of this process, started by the first who asks; null where none is installed, and why_absent()
  // says what to install.
  static PostgresServer* get();
  static std::string why_absent();

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
  bool make();
  bool answers() const;
  void end(int signal);

  std::string folder_, programs_;
  pid_t process_ = 0;
  int databases_ = 0;
};

}  // namespace tessera::testing
