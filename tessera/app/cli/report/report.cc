#include "tessera/app/cli/report/report.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "tessera/app/bench/ceilings.h"
#include "tessera/app/cli/common/command.h"
#include "tessera/app/cli/db/db.h"
#include "tessera/app/report/page.h"
#include "tessera/app/report/sections.h"
#include "tessera/support/counted.h"
#include "tessera/support/files.h"

namespace tessera::cli {
namespace {

struct ReportArgs {
  std::string source, db, output = "report.html";
  bool no_roofline = false, json = false;
};

bool is_number(const std::string& text) {
  return !text.empty() && text.size() < 10 &&
         std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return std::isdigit(c) != 0; });
}

// The last line of the command.
std::string summary_line(const report::Report& r) {
  std::string line = fmt::format("{}, {}", r.sessions.back().model, counted(r.trials, "trial"));
  const auto add = [&](std::size_t count, const char* what, double before_s, double after_s) {
    line +=
        fmt::format(", {}: {} -> {} ({})", counted(count, what), report::duration_text(before_s),
                    report::duration_text(after_s), report::gain_text(before_s, after_s));
  };
  if (!r.kernels.empty() || r.plans.empty())
    add(r.kernels.size(), "kernel", r.before_s(), r.after_s());
  if (!r.plans.empty()) add(r.plans.size(), "plan", r.plans[0].default_s, r.plans[0].seconds);
  return line;
}

Json to_json(const std::string& page, const report::Report& r) {
  Json models = Json::array(), kernels = Json::array();
  for (const report::WholeModel& m : r.summary.models) {
    models.push_back(
        {{"name", m.name}, {"before_us", m.before_s * 1e6}, {"after_us", m.after_s * 1e6}});
  }
  for (const report::Kernel& k : r.kernels) {
    kernels.push_back({{"key", k.task.key},
                       {"what", k.what},
                       {"layers", k.use.layers},
                       {"uses", k.use.uses_after},
                       {"before_us", k.use.before_s * 1e6},
                       {"after_us", k.use.after_s * 1e6},
                       {"trials", k.trials}});
  }
  return {{"page", page},
          {"model", r.sessions.back().model},
          {"trials", r.trials},
          {"models", models},
          {"kernels", kernels}};
}

Result<void> write_report(const ReportArgs& args) {
  const bool session = is_number(args.source);
  const std::string path =
      args.source.empty() || session ? database_path(args.db) : database_path(args.source);
  TESSERA_TRY(const record::Database database, record::Database::open_read_only(path));
  TESSERA_TRY(const report::Report r,
              report::collect(database, path, session ? std::stoll(args.source) : 0));
  std::optional<report::Ceilings> ceilings;
  if (!args.no_roofline) {
    const record::SessionRow& last = r.sessions.back();
    TESSERA_TRY(ceilings, app::ceilings_of(last.target, last.threads));
  }
  const std::string page = report::to_html(r, ceilings);
  if (args.output == "-") {
    fmt::print("{}", page);
    return {};
  }
  TESSERA_DO(write_file(args.output, {page}));
  if (args.json) {
    print_json(to_json(args.output, r));
    return {};
  }
  fmt::print("{}: {}\n", args.output, summary_line(r));
  return {};
}

}  // namespace

void add_report(Flags& app, std::function<int()>* run) {
  Flags* sub = app.add_subcommand("report", "Write what a tuning did as one HTML page");
  sub->footer(
      "Examples:\n  tessera report tuning.db -o report.html\n"
      "  tessera report 3 --db tuning.db -o third.html\n"
      "For a database, the page covers all sessions that tuned what the last one did, on its\n"
      "machine.\n"
      "docs/guide/tuning.md says more.");
  const auto args = std::make_shared<ReportArgs>();
  sub->add_option("SOURCE", args->source,
                  "Database, or the number of a session of --db (`tessera db list`)");
  sub->add_option("--db", args->db, "Database (default: $TESSERA_DB, else tessera.db)");
  sub->add_option("-o,--output", args->output,
                  "Page to write (default: report.html); - is standard output");
  sub->add_flag("--no-roofline", args->no_roofline,
                "Do not measure the rates of this machine, which takes some seconds");
  sub->add_flag("--json", args->json, "Print a summary of the page as JSON");
  sub->callback([args, run] {
    *run = [args] {
      const Result<void> done = write_report(*args);
      return done ? static_cast<int>(kOk) : report(done.error());
    };
  });
}

}  // namespace tessera::cli
