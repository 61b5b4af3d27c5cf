// The only writer of markup: what comes from outside is escaped on its way in.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/app/plot/chart.h"

namespace tessera::report {

struct Column {
  std::string title;
  bool number = false;  // aligned to the right
};

// A text with lines of it marked.
struct MarkedLine {
  std::string text;
  bool marked = false;
};

class Html {
 public:
  explicit Html(std::string_view title);

  void heading(std::string_view text, std::string_view anchor = "");
  void small_heading(std::string_view text);
  void paragraph(std::string_view text);
  void note(std::string_view text);  // set apart: what a reader should know first
  // Large numbers with what they are.
  void facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void table(const std::vector<Column>& columns, const std::vector<std::vector<std::string>>& rows);
  void chart(const plot::LineChart& chart);
  void chart(const plot::RowChart& chart);
  // Beside each other where there is room.
  void charts(const std::vector<plot::LineChart>& charts);
  void begin_details(std::string_view summary, bool open);
  void end_details();
  // Two texts beside each other, one below the other where there is no room.
  void side_by_side(std::string_view left_title, const std::vector<MarkedLine>& left,
                    std::string_view right_title, const std::vector<MarkedLine>& right);

  std::string finish();

 private:
  void figure(const std::string& svg);
  void lines(std::string_view title, const std::vector<MarkedLine>& lines);

  std::string out_;
};

}  // namespace tessera::report
