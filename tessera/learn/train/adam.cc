#include "tessera/learn/train/adam.h"

#include <cmath>
#include <cstdlib>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>
#include <dlfcn.h>

#include "tessera/learn/train/graph_eval.h"

namespace tessera::train {
namespace {

using at::Tensor;

constexpr double kBeta1 = 0.9, kBeta2 = 0.999, kEpsilon = 1e-8;

Result<void> check_weights(const std::vector<nn::Parameter>& parameters, const Weights& weights) {
  for (const nn::Parameter& p : parameters) {
    const auto it = weights.find(p.name);
    if (it == weights.end()) {
      return make_error(ErrorCode::kInvalidArgument, "there is no weight {}", p.name);
    }
    if (it->second.shape() != p.shape || it->second.dtype() != DType::kF32) {
      return make_error(ErrorCode::kInvalidArgument, "weight {} is {}, not {}", p.name,
                        tessera::to_text(it->second.shape()), tessera::to_text(p.shape));
    }
  }
  return {};
}

void set_threads(int threads) {
  at::set_num_threads(threads);
  // An OpenBLAS with threads of its own does not follow torch.
  void* const blas = ::dlsym(RTLD_DEFAULT, "openblas_set_num_threads");
  if (blas != nullptr) reinterpret_cast<void (*)(int)>(blas)(threads);
}

// Nothing names a symbol of torch's part for CUDA: it registers itself when it is loaded, which has
// to be before torch is first asked for it. Empty: there is a device, else why not.
std::string missing_cuda() {
  static const std::string why = [] {
    std::string out;
    // Without it products are not the same in every run. Read when the device is first used.
    ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", /*overwrite=*/0);
    if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      const char* const said = ::dlerror();
      out = said != nullptr ? said : "no libtorch_cuda.so";
    }
    return at::hasCUDA() ? "" : out.empty() ? std::string("no device answers") : out;
  }();
  return why;
}

}  // namespace

Result<at::Device> prepare_device(const std::string& name, int threads) {
  if (name != "cpu" && name != "cuda" && name != "auto") {
    return make_error(ErrorCode::kInvalidArgument, "no device '{}'; there are cpu, cuda, auto",
                      name);
  }
  if (threads > 0) set_threads(threads);
  const std::string missing = name == "cpu" ? "" : missing_cuda();
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  if (name == "cpu" || (name == "auto" && !missing.empty())) return at::Device(at::kCPU);
  if (!missing.empty()) {
    return make_error(ErrorCode::kUnavailable, "torch has no CUDA device: {}", missing);
  }
  return at::Device(at::kCUDA, 0);
}

// `parts_` are views of `values_`, whose gradients are views of `gradient_`.
AdamW::AdamW(std::vector<nn::Parameter> parameters, const at::Device& device)
    : parameters_(std::move(parameters)) {
  std::int64_t total = 0;
  for (const nn::Parameter& p : parameters_) total += elements(p.shape);
  const at::TensorOptions options = at::TensorOptions().device(device).dtype(at::kFloat);
  values_ = at::zeros({total}, options);
  gradient_ = at::zeros({total}, options);
  first_ = at::zeros({total}, options);
  second_ = at::zeros({total}, options);
  decayed_ = at::zeros({total}, options);
  std::int64_t at = 0;
  for (const nn::Parameter& p : parameters_) {
    const std::int64_t size = elements(p.shape);
    Tensor part = values_.narrow(0, at, size).view(p.shape).detach();
    part.set_requires_grad(true);
    part.mutable_grad() = gradient_.narrow(0, at, size).view(p.shape);
    parts_.push_back(part);
    // Biases and the factors of norms are not shrunk.
    if (p.shape.size() > 1) decayed_.narrow(0, at, size).fill_(1);
    at += size;
  }
}

void AdamW::step(const Tensor& loss, double lr, double decay, double clip) {
  gradient_.zero_();
  loss.backward();
  const c10::AutoGradMode no_gradients(false);
  ++steps_;
  Tensor& g = gradient_;
  if (clip > 0) g.mul_((clip / (g.norm() + 1e-6)).clamp_max(1.0));
  first_.mul_(kBeta1).add_(g, 1 - kBeta1);
  second_.mul_(kBeta2).addcmul_(g, g, 1 - kBeta2);
  const auto n = static_cast<double>(steps_);
  const double first = 1 - std::pow(kBeta1, n), second = 1 - std::pow(kBeta2, n);
  const Tensor scale = second_.sqrt().div_(std::sqrt(second)).add_(kEpsilon);
  values_.addcmul_(values_, decayed_, -lr * decay);
  values_.addcdiv_(first_, scale, -lr / first);
}

OptimizerState AdamW::state() const {
  return {.first = write(first_), .second = write(second_), .steps = steps_};
}

Result<void> AdamW::set_state(const OptimizerState& state) {
  TESSERA_DO(read(state.first, first_));
  TESSERA_DO(read(state.second, second_));
  steps_ = state.steps;
  return {};
}

Result<void> AdamW::read(const Weights& from, const Tensor& to) const {
  TESSERA_DO(check_weights(parameters_, from));
  std::int64_t at = 0;
  for (const nn::Parameter& p : parameters_) {
    const std::int64_t size = elements(p.shape);
    to.narrow(0, at, size).copy_(to_torch(from.at(p.name), to.options()).reshape({size}));
    at += size;
  }
  return {};
}

Weights AdamW::write(const Tensor& from) const {
  const Tensor host = from.to(at::kCPU);
  Weights out;
  std::int64_t at = 0;
  for (const nn::Parameter& p : parameters_) {
    const std::int64_t size = elements(p.shape);
    out.emplace(p.name, to_host(host.narrow(0, at, size).view(p.shape)));
    at += size;
  }
  return out;
}

}  // namespace tessera::train
