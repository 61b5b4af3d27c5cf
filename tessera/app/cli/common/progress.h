// Live progress on stderr: one line that is rewritten on a terminal, now and then a line elsewhere.
#pragma once

#include <cstdint>
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
  // What the terminal shows of a line; elsewhere all of it.
  std::size_t width() const;
  // Leaves the last line standing.
  void finish();

 private:
  bool terminal_;
  double plain_s_, last_s_;
  std::string shown_;
};

// SIGINT, SIGTERM and SIGHUP (unless nohup ignores it) ask the program to end from now on. The
// first is noted; the next one ends the program, but not before what is `unsaved` is on disk: see
// end_if_hurried(). The one after that does at any time.
enum class OnInterrupt : std::uint8_t { kAllSaved, kUnsaved };
void catch_interrupt(OnInterrupt state = OnInterrupt::kAllSaved);
bool interrupted();
// All is saved from now on; ends the program when a second signal came before that.
void end_if_hurried();
// What an interrupted program leaves with: 128 and the signal, 130 for Ctrl-C.
int interrupt_code();

// The words of `line` that fit, with "..." where some do not.
std::string fitted(const std::string& line, std::size_t width);
// "1:02:03", "4:05".
std::string clock_text(double seconds);
// "1.20 s", "12.3 ms", "850.0 us", "3.21 us", "59 ns".
std::string time_text(double seconds);

}  // namespace tessera::cli
