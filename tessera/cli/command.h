// One command of the program: registers its flags, returns an exit code when chosen.
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tessera/support/result.h"

namespace CLI {
class App;
}

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
  kStrictMiss = 7,     // a plan lacks a task
  kInterrupted = 130,  // the best so far is saved
};

// Adds the subcommand to `app`; *run is set when the user chose it.
using AddCommand = void (*)(CLI::App& app, std::function<int()>* run);

void add_bench(CLI::App& app, std::function<int()>* run);
void add_cache(CLI::App& app, std::function<int()>* run);
void add_check(CLI::App& app, std::function<int()>* run);
void add_compile(CLI::App& app, std::function<int()>* run);
void add_conformance(CLI::App& app, std::function<int()>* run);
void add_dataset(CLI::App& app, std::function<int()>* run);
void add_db(CLI::App& app, std::function<int()>* run);
void add_eval(CLI::App& app, std::function<int()>* run);
void add_peer_op(CLI::App& app, std::function<int()>* run);
void add_run(CLI::App& app, std::function<int()>* run);
void add_show(CLI::App& app, std::function<int()>* run);
void add_targets(CLI::App& app, std::function<int()>* run);
void add_tasks(CLI::App& app, std::function<int()>* run);
void add_train(CLI::App& app, std::function<int()>* run);
void add_tune(CLI::App& app, std::function<int()>* run);
void add_zoo(CLI::App& app, std::function<int()>* run);

// Prints "tessera: reason" to stderr and returns the code that fits the error.
int report(const Error& error);
// The same where the subject is a model: what is unsupported gives kUnsupportedModel.
int report_model(const Error& error);

// Prints it with a newline; bytes that are not UTF-8, which names and paths may hold, are replaced.
void print_json(const nlohmann::ordered_json& json);

// Folder of the schedules that ship with the program: beside the sources or installed under share/.
std::string default_schedule_folder();

}  // namespace tessera::cli
