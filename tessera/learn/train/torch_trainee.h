// The part of a trainee that does not depend on its network.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "tessera/learn/train/adam.h"
#include "tessera/learn/train/options.h"

namespace tessera::train {

// What torch throws within `f`, as an error.
template <class F>
auto guarded(ErrorCode code, const std::string& what, F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    return make_error(code, "{}: {}", what, e.what());
  }
}

// `Interface` is an Optimized.
template <class Interface>
class TorchTrainee : public Interface {
 public:
  TorchTrainee(std::vector<nn::Parameter> parameters, at::Device device,
               const TraineeOptions& options)
      : device_(device),
        options_(options),
        adam_(std::move(parameters), device),
        loss_sum_(at::zeros({}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

  double take_loss() override {
    const double sum = loss_sum_.template item<double>();
    loss_sum_.zero_();
    return losses_ == 0 ? 0 : sum / static_cast<double>(std::exchange(losses_, 0));
  }
  Weights weights() const override { return adam_.weights(); }
  OptimizerState optimizer() const override { return adam_.state(); }
  Result<void> set_weights(const Weights& weights) override { return adam_.set_weights(weights); }
  Result<void> set_optimizer(const OptimizerState& state) override {
    return adam_.set_state(state);
  }
  std::string device() const override { return device_.is_cpu() ? "cpu" : "cuda"; }

 protected:
  // A step down the gradient of what `loss` gives, a Result<Tensor>.
  template <class Loss>
  Result<void> descend(double lr, Loss loss) {
    return guarded(ErrorCode::kRunFailed, "a step of training failed", [&]() -> Result<void> {
      at::globalContext().setAllowTF32CuBLAS(true);
      TESSERA_TRY(const at::Tensor value, loss());
      adam_.step(value, lr, options_.weight_decay, options_.clip);
      const c10::AutoGradMode no_gradients(false);
      loss_sum_ += value.detach();
      ++losses_;
      return {};
    });
  }

  // What `outputs` gives, a Result, without gradients and in full precision.
  template <class F>
  auto predicted(F outputs) -> decltype(outputs()) {
    return guarded(ErrorCode::kRunFailed, "prediction failed", [&] {
      at::globalContext().setAllowTF32CuBLAS(false);
      const c10::AutoGradMode no_gradients(false);
      return outputs();
    });
  }

  at::Device device_;
  TraineeOptions options_;
  AdamW adam_;

 private:
  at::Tensor loss_sum_;
  std::int64_t losses_ = 0;
};

}  // namespace tessera::train
