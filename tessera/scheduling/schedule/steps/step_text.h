// Reading the arguments of a step: tokens in order, each error naming what was expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/scheduling/schedule/step.h"

namespace tessera::schedule {

class ArgReader {
 public:
  explicit ArgReader(std::vector<std::string> tokens) : tokens_(std::move(tokens)) {}

  bool done() const { return next_ == tokens_.size(); }
  Result<std::string> word(const char* what);
  Result<std::int64_t> number(const char* what);
  Result<int> small_number(const char* what);                              // fits an int
  Result<std::vector<std::int64_t>> numbers_until_word(const char* what);  // at least one
  Result<std::vector<int>> comma_list(const char* what);
  std::vector<std::string> rest();
  bool take(std::string_view literal);  // consumes the token if it is next
  Result<void> finish() const;          // error when tokens are left

 private:
  std::vector<std::string> tokens_;
  std::size_t next_ = 0;
};

// Parsers of the steps, one per file in steps/; the table is in step.cc.
Result<Step> parse_split(ArgReader& args);
Result<Step> parse_follow_split(ArgReader& args);
Result<Step> parse_follow_fused_split(ArgReader& args);
Result<Step> parse_fuse(ArgReader& args);
Result<Step> parse_reorder(ArgReader& args);
Result<Step> parse_annotate(ArgReader& args);
Result<Step> parse_tensorize(ArgReader& args);
Result<Step> parse_pragma(ArgReader& args);
Result<Step> parse_compute_at(ArgReader& args);
Result<Step> parse_compute_inline(ArgReader& args);
Result<Step> parse_compute_root(ArgReader& args);
Result<Step> parse_cache_read(ArgReader& args);
Result<Step> parse_cache_write(ArgReader& args);
Result<Step> parse_rfactor(ArgReader& args);
Result<Step> parse_storage_align(ArgReader& args);
Result<Step> parse_layout(ArgReader& args);
Result<Step> parse_prefetch(ArgReader& args);

template <class... Args>
Error illegal(fmt::format_string<Args...> format, Args&&... args) {
  return make_error(ErrorCode::kIllegalSchedule, format, std::forward<Args>(args)...);
}

}  // namespace tessera::schedule
