#include "tessera/scheduling/lower/code_size.h"

#include "tessera/lang/ir/visitor.h"

namespace tessera::lower {
namespace {

class CodeSize final : public ir::Visitor {
 public:
  double operations = 0;

 protected:
  void visit(const ir::For& loop) override {
    const double outside = copies_;
    const auto* extent = loop.extent.as<ir::IntImm>();
    if (loop.loop_kind == ir::LoopKind::kUnrolled && extent)
      copies_ *= static_cast<double>(extent->value);
    (*this)(loop.body);
    copies_ = outside;
  }
  void visit(const ir::Store& store) override {
    operations += copies_;
    (*this)(store.value);
  }
  void visit(const ir::Load&) override { operations += copies_; }
  void visit(const ir::Binary& node) override {
    operations += copies_;
    ir::Visitor::visit(node);
  }
  void visit(const ir::Call& node) override {
    operations += copies_;
    ir::Visitor::visit(node);
  }

 private:
  double copies_ = 1;
};

}  // namespace

double code_size(const ir::DeviceProgram& program) {
  CodeSize size;
  for (const ir::Launch& launch : program.launches) size(launch.body);
  return size.operations;
}

}  // namespace tessera::lower
