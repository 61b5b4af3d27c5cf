// Live progress on stderr: one line that is rewritten on a terminal, now and then a line elsewhere.
#pragma once

#include <string>

namespace tessera::cli {

class ProgressLine {
 public:
  // `plain_s`: seconds between lines where stderr is no terminal.
  explicit ProgressLine(double plain_s = 10);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // Shows it; not on a terminal only if enough time has passed or `important`.
  void show(const std::string& line, bool important = false);
  // A line that stays, above the live one.
  void say(const std::string& line);
  // Leaves the last line standing.
  void finish();

 private:
  bool terminal_;
  double plain_s_, last_s_;
  std::string shown_;
};

// Set by the first SIGINT; the second ends the program as usual.
void catch_interrupt();
bool interrupted();

// "1:02:03", "4:05".
std::string clock_text(double seconds);
// "12.3 ms", "850 us", "1.20 s".
std::string time_text(double seconds);

}  // namespace tessera::cli
