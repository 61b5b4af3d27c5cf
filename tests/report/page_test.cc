#include "tessera/app/report/page.h"

#include <regex>

#include <gtest/gtest.h>

#include "tessera/app/report/sections.h"
#include "tests/record/temp_folder.h"
#include "tests/report/sample_session.h"
#include "tests/testing/browser.h"
#include "tests/testing/testing.h"

namespace tessera::report {
namespace {

class PageTest : public record::TempFolder {
 protected:
  std::string page(bool with_summary) {
    EXPECT_TRUE(fill_database(path("a.db"), with_summary).ok());
    const Result<record::Database> database = record::Database::open_read_only(path("a.db"));
    const Result<Report> report = collect(*database, path("a.db"), 0);
    EXPECT_TRUE(report.ok());
    const Ceilings ceilings{.gflops = {{"f32", 100}},
                            .levels = {{"L1", 1e5, 200}, {"memory", 0, 10}},
                            .source = "a test"};
    return to_html(*report, with_summary ? std::optional(ceilings) : std::nullopt);
  }
};

// Headings, columns, names of charts, facts: what a reader finds, in its order.
std::string structure(const std::string& html) {
  std::string out;
  const std::regex part("<(h1|h2|h3|h4|th|dt|title|summary|mark)[^>]*>([^<]*)</");
  for (std::sregex_iterator it(html.begin(), html.end(), part), end; it != end; ++it) {
    out += (*it)[1].str() + ": " + (*it)[2].str() + "\n";
  }
  return out;
}

TEST_F(PageTest, HasEverySection) {
  const std::string html = page(true);
  testing::expect_golden("report/structure.txt", structure(html));
  EXPECT_NE(html.find("class=\"mark\""), std::string::npos) << "rooflines";
}

TEST_F(PageTest, TellsWhatElseIsKnown) {
  const std::string html = page(true);
  EXPECT_NE(html.find("</dt><dd>14 ms</dd>"), std::string::npos) << "the peer";
  EXPECT_NE(html.find("<dt>times as fast</dt><dd>2.00x</dd>"), std::string::npos);
  EXPECT_NE(html.find("The budget ended the search"), std::string::npos);
  EXPECT_NE(html.find(".unproved.plan has what was found"), std::string::npos);
  EXPECT_NE(html.find("<title>kept by the plan</title>"), std::string::npos);
}

// The tuned model runs bb no more, and runs aa, which the untuned one did not.
TEST_F(PageTest, KernelsThatWereReplacedAreNotWinners) {
  Report r{.has_summary = true};
  const auto kernel = [](const char* name, double before, double after, double uses_before,
                         double uses_after) {
    Kernel k{.label = name, .what = name};
    k.use = {.key = name,
             .uses_before = uses_before,
             .uses_after = uses_after,
             .before_s = before,
             .after_s = after};
    k.before = trial(name, 1, before, "default");
    k.after = trial(name, 2, after, "evolutionary");
    return k;
  };
  r.kernels = {kernel("dropped", 9e-3, 1e-3, 1, 0), kernel("taken", 4e-3, 2e-3, 0, 1),
               kernel("kept", 3e-3, 2.9e-3, 1, 1)};
  Html page("page");
  add_gains(r, &page);
  add_schedules(r, &page);
  const std::string html = page.finish();
  EXPECT_EQ(html.find("dropped"), std::string::npos);
  EXPECT_LT(html.find("taken"), html.find("kept"));
  Html head("head");
  add_outcome(r, &head);
  EXPECT_NE(head.finish().find(
                "<dt>kernels</dt><dd>2</dd></div>\n<div><dt>alternatives tried</dt><dd>1<"),
            std::string::npos);
}

TEST_F(PageTest, NothingButEscapedDataAndNoAddress) {
  for (const bool with_summary : {true, false}) {
    const std::string html = page(with_summary);
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_NE(html.find("&lt;script&gt;"), std::string::npos);
    EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
    for (const char* word : {"src=", "href=", "url(", "@import", "http-equiv=\"refresh\"", "on="}) {
      EXPECT_EQ(html.find(word), std::string::npos) << word;
    }
    std::size_t addresses = 0;  // the namespace of SVG, which nothing fetches
    for (std::size_t at = html.find("://"); at != std::string::npos; at = html.find("://", at + 1))
      ++addresses;
    std::size_t charts = 0;
    for (std::size_t at = html.find("xmlns="); at != std::string::npos;
         at = html.find("xmlns=", at + 1))
      ++charts;
    EXPECT_EQ(addresses, charts);
    std::filesystem::remove(path("a.db"));
  }
}

TEST_F(PageTest, IsReadableInABrowser) {
  std::string html = page(true);
  // Scripts are forbidden on the page itself; the one that looks at it needs to be let in.
  const std::regex policy("<meta http-equiv=[^>]*>");
  html = std::regex_replace(html, policy, "");
  html.insert(html.find("</body>"),
              testing::cut_off_script() +
                  "<script>document.body.append('wide ' + (document.documentElement.scrollWidth > "
                  "innerWidth) + ' ground ' + getComputedStyle(document.body).backgroundColor)"
                  "</script>");
  const std::pair<const char*, const char*> looks[] = {
      {"--window-size=1200,900", "ground rgb(255, 255, 255)"},
      // A phone, in the dark.
      {"--window-size=500,800 --blink-settings=preferredColorScheme=0", "ground rgb(21, 24, 28)"}};
  for (const auto& [flags, ground] : looks) {
    const std::optional<std::string> dom = testing::browse(html, flags);
    if (!dom) GTEST_SKIP() << "chromium is not installed";
    EXPECT_EQ(testing::cut_off_texts(*dom), "charts 7, cut off 0") << flags;
    EXPECT_NE(dom->find("wide false"), std::string::npos) << "it scrolls sideways: " << flags;
    EXPECT_NE(dom->find(ground), std::string::npos) << flags;
  }
}

}  // namespace
}  // namespace tessera::report
