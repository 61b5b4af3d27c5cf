// A database with one tuning of two kernels, in which every text tries to be markup.
#pragma once

#include <string>

#include <fmt/format.h>

#include "tessera/app/report/summary.h"
#include "tessera/machine/target/target.h"
#include "tessera/trials/record/database.h"
#include "tessera/trials/record/session_summary.h"

namespace tessera::report {

inline constexpr const char* kEvil = "<script>alert(1)</script>\"'&";

inline record::Record trial(const std::string& task, int n, double seconds,
                            const std::string& policy) {
  record::Record r;
  r.session = 1;
  r.task = task;
  r.candidate = fmt::format("reasoned: C.rows={} C.{}=1", n, kEvil);
  r.schedule = fmt::format("split C i {}\nannotate C i.1 vectorize\n# {}\n", n, kEvil);
  r.outcome = "ok";
  r.samples_s = {0.9 * seconds, seconds, seconds, 1.2 * seconds};
  r.seconds = seconds;
  r.calibration_s = 1e-4;
  r.quiet = n % 2 == 0;
  r.policy = policy;
  r.trial = n;
  r.unix_time = 1'700'000'000 + 10 * n;
  return r;
}

inline record::Record failure(const std::string& task, int n) {
  record::Record r = trial(task, n, 0, "evolutionary");
  r.outcome = "run_error";
  r.reason = fmt::format("output tanh differs {}", kEvil);
  r.samples_s.clear();
  return r;
}

// Kernel aa runs three times: 4 ms, then 2 ms; bb once, and keeps its default of 1 ms.
inline Result<void> fill_database(const std::string& path, bool with_summary) {
  TESSERA_TRY(record::Database database, record::Database::open(path));
  record::SessionRow session;
  session.model = fmt::format("zoo:{}", kEvil);
  session.target = target::to_text(target::code_target(*target::find_target("neoverse-v1"), 2));
  session.threads = 2;
  session.options = fmt::format("--budget {}", kEvil);
  session.version = "0.1.0";
  session.started = 1'700'000'000;
  TESSERA_TRY(const std::int64_t id, database.begin_session(session));
  const char* definition =
      "dag conv\n  input A: f32[1, 64]\n  stage C: f32[1, 128]\n    C[i, j] = sum(k in 64, l in 1) "
      "A[i, k]\n  output C\n";
  TESSERA_DO(database.add_tasks({{"aa", "conv+add", definition, 8e6, 1e5}}));
  TESSERA_DO(database.add_tasks({{"bb", kEvil, kEvil, 1e6, 1e4}}));
  TESSERA_DO(database.append({trial("aa", 1, 4e-3, "default"), trial("bb", 2, 1e-3, "default"),
                              trial("aa", 3, 3e-3, "evolutionary"), failure("aa", 4),
                              failure("bb", 5), trial("aa", 6, 2e-3, "evolutionary"),
                              trial("aa", 7, 5e-3, "evolutionary")}));
  if (with_summary) {
    const Summary summary{.models = {{session.model, 13.5e-3, 7.2e-3, true}},
                          .kernels = {{"aa",
                                       "direct",
                                       3,
                                       3,
                                       4.1e-3,
                                       2.1e-3,
                                       false,
                                       trial("aa", 6, 0, "").candidate,
                                       {fmt::format("/conv1{}", kEvil), "/conv2", "/conv3"}},
                                      {"bb", "", 1, 1, 1e-3, 1e-3, false, ""}},
                          .stopped_by = "budget",
                          .disturbed = 5,
                          .busy = true,
                          .peers = {{session.model, kEvil, 7e-3, 14e-3}},
                          .unproved = fmt::format("net{}.unproved.plan", kEvil)};
    TESSERA_DO(record::keep_session_summary(path, id, to_json(summary)));
  }
  return database.end_session(id, "done");
}

}  // namespace tessera::report
