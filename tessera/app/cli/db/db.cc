// tessera db: look into a database of records, move records in and out.
#include "tessera/app/cli/db/db.h"

#include <cstdlib>
#include <memory>

#include "tessera/app/cli/common/command.h"
#include "tessera/support/json.h"

namespace tessera::cli {
namespace {

using Action = int (*)(const DbArgs&);

struct SubCommand {
  const char* name;
  const char* help;
  const char* examples;
  Action action;
};

constexpr SubCommand kSubCommands[] = {
    {"list", "Sessions, tasks with their best times, and how many records there are",
     "Examples:\n  tessera db list --db tuning.db\n  tessera db list --json", db_list},
    {"explain", "The best records of a task, what sets them apart, and how trials failed",
     "Examples:\n  tessera db explain --task 0123456789abcdef\n"
     "  tessera db explain --task KEY --db tuning.db --top 10 --json",
     db_explain},
    {"diff", "Best times of two databases, task by task",
     "Examples:\n  tessera db diff before.db after.db", db_diff},
    {"export", "Write records as JSON lines, or as the foreign logs they came from",
     "Examples:\n  tessera db export -o all.jsonl\n"
     "  tessera db export --db logs.db -o back.json --format ansor",
     db_export},
    {"import", "Add records of databases, exports, Ansor (TenSet) logs and AutoTVM logs",
     "Examples:\n  tessera db import records.jsonl.gz --db logs.db\n"
     "  tessera db import other.db --db all.db\n"
     "  tessera db import *.log --db logs.db --format autotvm",
     db_import},
    {"copy", "Copy a whole database into an empty one: a file or a PostgreSQL server",
     "Examples:\n  tessera db copy tuning.db postgresql://db.example/tuning\n"
     "  tessera db copy postgresql://db.example/tuning backup.db",
     db_copy},
    {"merge", "Add to a database what another one has and it has not",
     "Example:\n  tessera db merge from-laptop.db all.db", db_merge},
    {"migrate", "Bring a database of an older version up to date",
     "Example:\n  tessera db migrate --db tuning.db", db_migrate},
    {"prune", "Remove records by age, session and machine; those of running sessions stay",
     "Examples:\n  tessera db prune --older 365 --dry-run\n"
     "  tessera db prune --machine neoverse-v1 --older 30",
     db_prune},
    {"grant", "Print SQL for a role of a server that may add measurements and nothing else",
     "Example:\n  tessera db grant tuner | psql postgresql://db.example/tuning", db_grant},
};

void add_flags(Flags& sub, const std::string& name, DbArgs& args) {
  if (name == "diff") {
    sub.add_option("FILES", args.files, "Two databases")->required()->expected(2);
  } else if (name == "copy" || name == "merge") {
    sub.add_option("FROM TO", args.files, "Two databases: files or postgresql:// URLs")
        ->required()
        ->expected(2);
  } else if (name == "grant") {
    sub.add_option("ROLE", args.role, "Name of the role")->required();
  } else {
    // `report` and `info` take it without the flag, too.
    const bool alone = name != "import";
    sub.add_option(alone ? "DB,--db" : "--db", args.db,
                   "File or postgresql:// URL (default: $TESSERA_DB, else tessera.db)");
  }
  if (name == "prune") {
    sub.add_option("--older", args.older_days, "Minimum age in days of the records to remove")
        ->check(range(1, 36500));
    sub.add_option("--session", args.session, "Session whose records to remove (`tessera db list`)")
        ->check(range(1, 1'000'000'000));
    sub.add_option("--machine", args.machine, "Target, or the first word of its text");
    sub.add_flag("--dry-run", args.dry_run, "Count only");
  }
  if (name == "import") {
    sub.add_option("FILES", args.files, "Files to read")->required();
    sub.add_option("--format", args.format, "auto, tessera, ansor or autotvm")
        ->check(one_of({"auto", "tessera", "ansor", "autotvm"}));
  }
  if (name == "export") {
    args.format = "tessera";
    sub.add_option("-o,--output", args.output, "File to write; - is standard output")->required();
    sub.add_option("--format", args.format, "tessera, ansor or autotvm")
        ->check(one_of({"tessera", "ansor", "autotvm"}));
  }
  if (name == "explain") {
    sub.add_option("--task", args.task, "Key of the task (`tessera db list`)")->required();
    sub.add_option("--subject", args.subject,
                   "kernel (alone), in_place or model (default: the first that has records)")
        ->check(one_of({"kernel", "in_place", "model"}));
    sub.add_option("--top", args.top, "How many of the best to show")->check(range(1, 1000));
  }
  if (name == "explain" || name == "diff" || name == "list") {
    sub.add_option("--target", args.target, "Records of this target alone");
  }
  if (name != "export" && name != "grant") sub.add_flag("--json", args.json, "Print JSON");
}

}  // namespace

std::string duration_text(double seconds) {
  if (seconds <= 0) return "-";
  if (seconds < 1e-3) return fmt::format("{:.2f} us", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.3f} ms", seconds * 1e3);
  return fmt::format("{:.3f} s", seconds);
}

std::vector<std::string> targets_of(const DbArgs& args) {
  if (args.target.empty()) return {};
  return {args.target};
}

std::string database_path(const std::string& flag) {
  if (!flag.empty()) return flag;
  const char* from_environment = std::getenv("TESSERA_DB");
  if (from_environment != nullptr && *from_environment != '\0') return from_environment;
  return "tessera.db";
}

void add_db(Flags& app, std::function<int()>* run) {
  Flags* db = app.add_subcommand("db", "Inspect, move and tidy databases of records");
  db->footer(
      "Examples:\n  tessera db list --db tuning.db\n  tessera db explain --task KEY\n"
      "  tessera db diff before.db after.db\n  tessera db import log.json.gz --db logs.db\n"
      "A database is a file or postgresql://USER@HOST/NAME (needs the package libpq5).\n"
      "Records and plans: docs/reference/search.md.");
  db->require_subcommand(1, 1);
  for (const SubCommand& s : kSubCommands) {
    Flags* sub = db->add_subcommand(s.name, s.help);
    sub->footer(s.examples);
    const auto args = std::make_shared<DbArgs>();
    add_flags(*sub, s.name, *args);
    sub->callback(
        [args, run, action = s.action] { *run = [args, action] { return action(*args); }; });
  }
}

}  // namespace tessera::cli
