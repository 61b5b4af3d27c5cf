#include "tessera/app/report/html.h"

#include <fmt/format.h>

#include "tessera/app/plot/style.h"
#include "tessera/app/plot/svg.h"

namespace tessera::report {
namespace {

using plot::escape;

// The colours of a mode; charts have the same.
std::string variables(const plot::Mode& mode) {
  return fmt::format("--ground:{};--ink:{};--soft:{};--grid:{}", mode.ground, mode.ink, mode.soft,
                     mode.grid);
}

std::string page_style() {
  return fmt::format(
             ":root{{{};--mark:#ffe9a8;color-scheme:light dark}}\n"
             "@media screen and (prefers-color-scheme:dark){{:root{{{};--mark:#5a4a12}}}}\n",
             variables(plot::kLight), variables(plot::kDark)) +
         R"(html{-webkit-text-size-adjust:100%}
body{margin:0 auto;padding:1rem;max-width:64rem;background:var(--ground);color:var(--ink);font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}
h1{font-size:1.7rem;line-height:1.2}h2{margin-top:2.2rem;border-bottom:1px solid var(--grid);padding-bottom:.2rem}
.note{border-left:4px solid var(--soft);padding:.3rem .8rem;color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:1rem 2rem;margin:1rem 0}.facts dt{color:var(--soft);font-size:.85rem}.facts dd{margin:0;font-size:1.5rem;font-weight:600}
figure,.table{margin:1rem 0;overflow-x:auto}figure .plot{width:100%;max-width:44rem}
table{border-collapse:collapse;font-size:.9rem}th,td{padding:.25rem .7rem .25rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--grid)}
th{color:var(--soft);font-weight:600}.number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
details{margin:.6rem 0}summary{cursor:pointer;font-weight:600}
.beside{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr));gap:0 1.5rem}
pre{margin:0;font:.82rem/1.45 ui-monospace,monospace;white-space:pre-wrap;overflow-wrap:anywhere}mark{background:var(--mark);color:inherit}
@media print{body{max-width:none;font-size:11pt;padding:0}figure,table,.beside{break-inside:avoid}details::details-content{content-visibility:visible;block-size:auto}pre{font-size:8pt}}
)";
}

}  // namespace

Html::Html(std::string_view title) {
  // No script, no image, no font and no address: nothing of the page can ask for anything.
  out_ = fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{0}</title>\n<style>\n{1}{2}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
      escape(title), page_style(), plot::style());
}

void Html::heading(std::string_view text, std::string_view anchor) {
  out_ += fmt::format("<h2 id=\"{}\">{}</h2>\n", escape(anchor), escape(text));
}

void Html::small_heading(std::string_view text) {
  out_ += fmt::format("<h3>{}</h3>\n", escape(text));
}

void Html::paragraph(std::string_view text) { out_ += fmt::format("<p>{}</p>\n", escape(text)); }

void Html::note(std::string_view text) {
  out_ += fmt::format("<p class=\"note\">{}</p>\n", escape(text));
}

void Html::facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  out_ += "<dl class=\"facts\">\n";
  for (const auto& [name, value] : facts) {
    out_ += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escape(name), escape(value));
  }
  out_ += "</dl>\n";
}

void Html::table(const std::vector<Column>& columns,
                 const std::vector<std::vector<std::string>>& rows) {
  out_ += "<div class=\"table\"><table>\n<thead><tr>";
  const auto cell = [&](const char* tag, std::size_t column, const std::string& text) {
    const bool number = column < columns.size() && columns[column].number;
    out_ += fmt::format("<{0}{1}>{2}</{0}>", tag, number ? " class=\"number\"" : "", escape(text));
  };
  for (std::size_t i = 0; i < columns.size(); ++i) cell("th", i, columns[i].title);
  out_ += "</tr></thead>\n<tbody>\n";
  for (const std::vector<std::string>& row : rows) {
    out_ += "<tr>";
    for (std::size_t i = 0; i < row.size(); ++i) cell("td", i, row[i]);
    out_ += "</tr>\n";
  }
  out_ += "</tbody></table></div>\n";
}

void Html::figure(const std::string& svg) { out_ += "<figure>\n" + svg + "</figure>\n"; }

void Html::chart(const plot::LineChart& chart) { figure(plot::to_svg(chart, plot::Place::kPage)); }

void Html::chart(const plot::RowChart& chart) { figure(plot::to_svg(chart, plot::Place::kPage)); }

void Html::charts(const std::vector<plot::LineChart>& charts) {
  out_ += "<div class=\"beside\">\n";
  for (const plot::LineChart& c : charts) chart(c);
  out_ += "</div>\n";
}

void Html::begin_details(std::string_view summary, bool open) {
  out_ += fmt::format("<details{}><summary>{}</summary>\n", open ? " open" : "", escape(summary));
}

void Html::end_details() { out_ += "</details>\n"; }

void Html::lines(std::string_view title, const std::vector<MarkedLine>& lines) {
  out_ += fmt::format("<div><h4>{}</h4><pre>", escape(title));
  for (const MarkedLine& line : lines) {
    const std::string text = escape(line.text);
    out_ += (line.marked ? "<mark>" + text + "</mark>" : text) + "\n";
  }
  out_ += "</pre></div>\n";
}

void Html::side_by_side(std::string_view left_title, const std::vector<MarkedLine>& left,
                        std::string_view right_title, const std::vector<MarkedLine>& right) {
  out_ += "<div class=\"beside\">\n";
  lines(left_title, left);
  lines(right_title, right);
  out_ += "</div>\n";
}

std::string Html::finish() { return std::move(out_) + "</body>\n</html>\n"; }

}  // namespace tessera::report
