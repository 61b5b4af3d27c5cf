// Small graphs, folders and programs that the tests of artifacts share.
#pragma once

#include <string>
#include <vector>

#include "tessera/frontend/graph/graph.h"

namespace tessera::artifact {

// Two layers with ReLU between them; outputs y, the input under a second name, and a constant.
graph::Graph two_layers();
// One host operator, of which the C runtime has a function; and one of which it has none.
graph::Graph with_topk();
graph::Graph with_det();

// Two inputs, one of them empty, as outputs.
graph::Graph nothing();

std::vector<HostTensor> inputs_for(const graph::Graph& graph);
// The interpreter's results.
std::vector<HostTensor> expected(const graph::Graph& graph, const std::vector<HostTensor>& inputs);
void expect_close(const std::vector<HostTensor>& got, const std::vector<HostTensor>& want);

// An empty folder of the current test; `name` below it does not exist.
std::string fresh_folder();
std::vector<std::string> files_in(const std::string& folder);  // names, sorted

// Runs `command` (a program of examples/c/run_artifact.c with what runs it) on raw files in
// `folder`; returns its outputs. Fails the test when the program fails.
std::vector<HostTensor> run_program(std::vector<std::string> command, const std::string& folder,
                                    const graph::Graph& graph,
                                    const std::vector<HostTensor>& inputs);

}  // namespace tessera::artifact
