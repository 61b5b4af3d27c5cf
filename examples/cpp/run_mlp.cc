// The artifact of zoo:mlp in a program of its own, which needs nothing of Tessera.
#include <iostream>
#include <vector>

#include "mlp.h"

int main() {
  tsr_context* context = nullptr;
  tsr_status status = mlp_open(nullptr, &context);
  std::vector<float> x(MLP_INPUT_0_BYTES / sizeof(float)), y(MLP_OUTPUT_0_BYTES / sizeof(float));
  const void* inputs[] = {x.data()};
  void* outputs[] = {y.data()};
  if (status.code == TSR_OK) status = mlp_run(context, inputs, outputs, nullptr);
  if (status.code != TSR_OK) {
    std::cerr << "run_mlp: " << status.message << '\n';
    return 1;
  }
  std::cout << y.size() << " outputs, the first is " << y[0] << '\n';
  mlp_close(context);
  return 0;
}
