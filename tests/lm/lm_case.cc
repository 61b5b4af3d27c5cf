#include "tests/lm/lm_case.h"

#include "tessera/lang/te/op_spec.h"

namespace tessera::lm {

space::Space space_of(const std::string& spec, const std::string& target, int threads) {
  const te::Dag dag = te::make_dag(te::parse_op_spec(spec).value()).value();
  target::Target machine = target::find_target(target).value();
  if (!machine.is_gpu()) machine = target::code_target(machine, threads);
  return space::make_space(dag, machine).value();
}

}  // namespace tessera::lm
