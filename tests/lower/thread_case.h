// Runs a Dag under a GPU schedule given as text in the interpreter.
#pragma once

#include <string>
#include <vector>

#include "tessera/lang/te/dag.h"
#include "tessera/scheduling/lower/lower_device.h"
#include "tessera/support/host_tensor.h"

namespace tessera::lower {

// What the program computes, compared with the Dag: empty when it agrees, otherwise the error of
// the interpreter (a race, ...) or the first difference.
std::string run_threads(const te::Dag& dag, const ir::DeviceProgram& program,
                        const std::vector<HostTensor>& inputs, double tolerance,
                        const std::vector<schedule::Layout>& layouts = {});
// The same for random inputs, packed as `layouts` says.
std::string run_threads(const te::Dag& dag, const ir::DeviceProgram& program,
                        const std::vector<schedule::Layout>& layouts = {});

// The program; fails the test and returns an empty one when the schedule is refused.
ir::DeviceProgram lower_threads(const te::Dag& dag, const std::string& schedule,
                                const PassOptions& options = {});

// The schedule must lower, its text must read back, and the program must compute what the Dag means
// without a race; removing any one barrier must give one.
void expect_threads_agree(const te::Dag& dag, const std::string& schedule);

// The schedule must be refused with kIllegalSchedule and a message that contains `part`.
void expect_threads_refused(const te::Dag& dag, const std::string& schedule,
                            const std::string& part);

int count_barriers(const ir::DeviceProgram& program);

}  // namespace tessera::lower
