// What the tests of measurers share: tasks, collecting, and looking at processes from outside.
#pragma once

#include <string>
#include <vector>

#include <sys/types.h>

#include "tessera/trials/measure/measurer.h"

namespace tessera::measure {

te::Dag dag_of(const char* spec);
schedule::Schedule default_steps(const te::Dag& dag);  // of the schedule by reasoning
Result<schedule::Schedule> reasoned(const te::Dag& dag, const target::Target& target);
schedule::Schedule steps(const std::string& text);

// The key of the first task is empty, so that trials need not name it; others are "1", "2", ...
std::unique_ptr<Measurer> start(const std::vector<te::Dag>& tasks, MeasureOptions options);
// Everything pending, within a minute; in order of the ids.
std::vector<Measurement> collect_all(Measurer& measurer);
Measurement measure_one(Measurer& measurer, Trial trial);

// Living processes below `ancestor` (not zombies) whose name is `name`; empty: any.
std::vector<pid_t> descendants(pid_t ancestor, const std::string& name);
bool is_alive(pid_t pid);
// Waits until the condition holds; false after a minute.
bool eventually(const std::function<bool()>& condition);

}  // namespace tessera::measure
