// Ends a text that comes in pieces where one of several strings occurs in it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::app {

class StopStrings {
 public:
  // Empty ones are left out.
  explicit StopStrings(std::vector<std::string> stops);

  // What is certain to come before any of the strings; the rest is held back.
  std::string push(std::string_view text);
  // What was held back: no string began there.
  std::string finish();
  bool stopped() const { return stopped_; }  // nothing comes from then on

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tessera::app
