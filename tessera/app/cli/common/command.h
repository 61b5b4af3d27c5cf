// One command of the program: registers its flags, returns an exit code when chosen.
#pragma once

#include <functional>
#include <string>

#include "tessera/app/cli/common/flags.h"
#include "tessera/support/json.h"
#include "tessera/support/result.h"

namespace tessera::cli {

// Exit codes of the contract; scripts rely on them.
enum ExitCode {
  kOk = 0,
  kInternal = 1,
  kUsage = 2,
  kNoMeasurement = 3,
  kWrongNumbers = 4,
  kUnsupportedModel = 5,
  kUnreachable = 6,
  kStrictMiss = 7,  // a plan lacks a task
  // 128 and a signal: interrupted, the best so far is saved (interrupt_code())
};

// Adds the subcommand to `app`; *run is set when the user chose it.
using AddCommand = void (*)(Flags& app, std::function<int()>* run);

void add_agent(Flags& app, std::function<int()>* run);
void add_bench(Flags& app, std::function<int()>* run);
void add_cache(Flags& app, std::function<int()>* run);
void add_check(Flags& app, std::function<int()>* run);
void add_compile(Flags& app, std::function<int()>* run);
void add_conformance(Flags& app, std::function<int()>* run);
void add_dataset(Flags& app, std::function<int()>* run);
void add_db(Flags& app, std::function<int()>* run);
void add_eval(Flags& app, std::function<int()>* run);
void add_fleet(Flags& app, std::function<int()>* run);
void add_generate(Flags& app, std::function<int()>* run);
void add_info(Flags& app, std::function<int()>* run);
void add_machine(Flags& app, std::function<int()>* run);
void add_peer_op(Flags& app, std::function<int()>* run);
void add_quantize(Flags& app, std::function<int()>* run);
void add_results(Flags& app, std::function<int()>* run);
void add_run(Flags& app, std::function<int()>* run);
void add_show(Flags& app, std::function<int()>* run);
void add_study(Flags& app, std::function<int()>* run);
void add_targets(Flags& app, std::function<int()>* run);
void add_tasks(Flags& app, std::function<int()>* run);
void add_train(Flags& app, std::function<int()>* run);
void add_tune(Flags& app, std::function<int()>* run);
void add_zoo(Flags& app, std::function<int()>* run);

// Prints "tessera: reason" to stderr and returns the code that fits the error.
int report(const Error& error);
// The same where the subject is a model: what is unsupported gives kUnsupportedModel.
int report_model(const Error& error);

// Prints it with a newline; bytes that are not UTF-8, which names and paths may hold, are replaced.
void print_json(const Json& json);

// As --schedule: as without the flag.
inline constexpr const char* kDefaultSchedule = "default";

}  // namespace tessera::cli
