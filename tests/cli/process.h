// Runs the built program as its users do: as another process.
#pragma once

#include <string>
#include <vector>

namespace tessera::cli {

struct Finished {
  int code = -1;   // exit status; -1 when a signal ended it
  int signal = 0;  // which one
  std::string out, err;
  long peak_kib = 0;  // most memory that it had at once
};

// `tessera ARGS...` in the root of the sources, with PATH leading to the program.
Finished run(const std::vector<std::string>& args);

// A command line of the shell, in the same place.
Finished run_shell(const std::string& command);

// Starts `tessera ARGS...`, sends SIGINT once it printed something to stdout, waits.
Finished run_interrupted(const std::vector<std::string>& args);

// `tessera ARGS...` beside the test, which it does not outlive.
class Background {
 public:
  explicit Background(const std::vector<std::string>& args);
  ~Background();  // kills it
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  void signal(int number) const;
  bool runs() const;
  std::string said() const;  // on stderr until now
  Finished wait();

 private:
  int process_ = 0;
  std::string files_;  // with its output
};

// The arguments that make a measurement as short as it can be.
std::vector<std::string> quick_bench(const std::vector<std::string>& args);

// A file in the test's own folder, `name` may begin with subfolders; returns its path.
std::string write_file(const std::string& name, const std::string& text);

std::string read_file(const std::string& path);

}  // namespace tessera::cli
