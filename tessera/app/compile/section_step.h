// What a section does after its known part: one step for each node or group of nodes that waited.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tessera/app/compile/loop_node.h"
#include "tessera/app/compile/section.h"

namespace tessera::app {

// Tensors of a run by name while a form is made; while it runs, by place.
class Slots {
 public:
  std::size_t add(const std::string& name) { return at_[name] = count_++; }
  std::optional<std::size_t> find(const std::string& name) const;
  std::size_t count() const { return count_; }

 private:
  std::map<std::string, std::size_t> at_;
  std::size_t count_ = 0;
};

// No slot: an operand or result that a node leaves out.
inline constexpr std::size_t kOmitted = SIZE_MAX;

struct SectionStep {
  std::vector<std::size_t> reads, writes;  // slots, or kOmitted
  std::int64_t nodes = 0;                  // of the model
  // Takes its place where run() gives nothing; whether it is then the last step, too.
  std::unique_ptr<SectionStep> instead;
  bool ends = false;

  SectionStep() = default;
  SectionStep(const SectionStep&) = delete;
  SectionStep& operator=(const SectionStep&) = delete;
  virtual ~SectionStep() = default;
  // Nothing: the step cannot be done this way (sequences, shapes that a body leaves open, ...).
  virtual Result<std::optional<Tensors>> run(const Tensors& inputs) = 0;
};

// What steps are made of: the scope of a form.
struct StepScope {
  SectionContext& context;
  const SectionPlace& place;
  Slots& slots;
  const std::vector<onnx::Initializer>& constants;
  const std::set<std::string>& wanted;  // by steps and sections that follow

  // A model of the nodes: its inputs have slots, its outputs are those that are wanted.
  onnx::Model part_of(std::vector<onnx::Node> nodes, const std::set<std::string>& outputs) const;
};

// Node by node, imported at every run.
std::unique_ptr<SectionStep> make_nodes_step(const StepScope& scope, std::vector<onnx::Node> nodes,
                                             const std::set<std::string>& outputs);
// The rest of a section as the next one.
std::unique_ptr<SectionStep> make_rest_step(const StepScope& scope, std::vector<onnx::Node> nodes,
                                            const std::set<std::string>& outputs,
                                            std::set<std::string> decides);
// An If, Loop or Scan whose bodies are sections; null: another operator, or one that only import
// can deal with.
std::unique_ptr<SectionStep> make_control_step(const StepScope& scope, const onnx::Node& node);

// The nodes' outputs that are wanted get slots, which the step writes.
void give_slots(const StepScope& scope, const std::vector<std::string>& names, SectionStep* step);

onnx::ValueInfo info_of(const std::string& name, const HostTensor& tensor);
// Of import, for sections and for nodes that run one by one: sizes and values are the inputs'.
onnx::ImportOptions section_import(const SectionContext& context);

}  // namespace tessera::app
