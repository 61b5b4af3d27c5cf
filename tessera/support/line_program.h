// A program of the user's that answers questions: one line in, one line out.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "tessera/support/clock.h"
#include "tessera/support/result.h"

namespace tessera {

// Words in front of what is not the name of a file: "exec:./mine.py --deep", "lib:./libmine.so".
inline constexpr std::string_view kProgramPrefix = "exec:";
inline constexpr std::string_view kLibraryPrefix = "lib:";

struct LineProgramLimits {
  double reply_s = 60;                             // for one answer
  std::size_t most_bytes = std::size_t{64} << 20;  // of one
};

// Its standard input and output are the two ends of the conversation, its standard error is ours.
// Calls from several threads wait for each other.
class LineProgram {
 public:
  // `command` is run by the shell, in a group of its own: an interrupt key is for us to handle.
  // kUnavailable: nothing can be started.
  static Result<std::unique_ptr<LineProgram>> start(const std::string& command,
                                                    const LineProgramLimits& limits = {});
  // Closes its input, waits a moment, then ends it.
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  const std::string& command() const { return command_; }

  // Sends a line and waits for the next one. kRunFailed: it ended, answered too late or too much;
  // the program is ended then, and every later call says the same. Messages name the command.
  Result<std::string> ask(const std::string& line);
  // Its answers cannot be used any more, for a reason that the caller found. The first stays.
  Error fail(const std::string& reason);
  // Why it cannot be asked; empty: it can.
  std::string error() const;

 private:
  LineProgram(std::string command, const LineProgramLimits& limits, pid_t child, int socket)
      : command_(std::move(command)), limits_(limits), child_(child), socket_(socket) {}
  bool send_line(const std::string& line, Clock::time_point deadline);
  Result<std::string> ask_locked(const std::string& line);
  Error fail_locked(const std::string& reason);
  std::string how_it_ended();
  bool wait_a_moment(int* status);  // whether it ended
  void end_program();

  std::string command_;
  LineProgramLimits limits_;
  pid_t child_;  // 0: ended
  int socket_;
  std::string received_;  // behind the last line
  mutable std::mutex mutex_;
  std::string error_;
};

}  // namespace tessera
