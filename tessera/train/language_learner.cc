#include "tessera/train/language_learner.h"

#include <array>
#include <utility>

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include "tessera/train/adam.h"
#include "tessera/train/graph_eval.h"

namespace tessera::train {
namespace {

using at::Tensor;

// Far below every score, and far from the end of f32.
constexpr double kNever = 1e9;

Tensor mean_where(const Tensor& x, const Tensor& weight) {
  return (x * weight).sum() / weight.sum().clamp_min(1);
}

class TorchLanguageLearner final : public LanguageLearner {
 public:
  TorchLanguageLearner(nn::LanguageSpec spec, std::vector<nn::Parameter> parameters,
                       at::Device device, const LearnerOptions& options,
                       const LanguageLossOptions& loss)
      : spec_(std::move(spec)),
        device_(device),
        options_(options),
        loss_(loss),
        adam_(std::move(parameters), device),
        loss_sum_(at::zeros({}, at::TensorOptions().device(device).dtype(at::kDouble))) {}

  Result<void> step(const LanguageBatch& batch, double lr) override {
    try {
      at::globalContext().setAllowTF32CuBLAS(true);
      TESSERA_TRY(const Tensor loss, loss_of(batch));
      adam_.step(loss, lr, options_.weight_decay, options_.clip);
      const c10::AutoGradMode no_gradients(false);
      loss_sum_ += loss.detach();
      ++losses_;
    } catch (const std::exception& e) {  // what torch throws
      return make_error(ErrorCode::kRunFailed, "a step of training failed: {}", e.what());
    }
    return {};
  }

  double take_loss() override {
    const double sum = loss_sum_.item<double>();
    loss_sum_.zero_();
    return losses_ == 0 ? 0 : sum / static_cast<double>(std::exchange(losses_, 0));
  }

  Result<Chances> chances(const LanguageBatch& batch) override {
    try {
      at::globalContext().setAllowTF32CuBLAS(false);
      const c10::AutoGradMode no_gradients(false);
      const Loaded on = load(batch);
      TESSERA_TRY(const Tensor all, value_chances(on, adam_.parts()));
      const Tensor taken = (chosen(all, on) * on.answered).to(at::kCPU).contiguous();
      const Tensor best = all.argmax(1).to(at::kCPU).contiguous();
      const std::size_t n = batch.taken.size();
      const float* chance = taken.data_ptr<float>();
      const std::int64_t* value = best.data_ptr<std::int64_t>();
      return Chances{{chance, chance + n}, {value, value + n}};
    } catch (const std::exception& e) {  // what torch throws
      return make_error(ErrorCode::kRunFailed, "prediction failed: {}", e.what());
    }
  }

  Weights weights() const override { return adam_.weights(); }
  OptimizerState optimizer() const override { return adam_.state(); }
  Result<void> set_weights(const Weights& weights) override { return adam_.set_weights(weights); }
  Result<void> set_optimizer(const OptimizerState& state) override {
    return adam_.set_state(state);
  }
  std::string device() const override { return device_.is_cpu() ? "cpu" : "cuda"; }

  // What preferences are compared with: the weights as they are now.
  void keep_reference() {
    if (loss_.loss != LanguageLoss::kPreference) return;
    const c10::AutoGradMode no_gradients(false);
    reference_.clear();
    for (const Tensor& part : adam_.parts()) reference_.push_back(part.detach().clone());
  }

 private:
  using Key = std::array<std::int64_t, 6>;

  Result<const GraphEval*> instance(const nn::LanguageShape& s) {
    const Key key = {s.subjects, s.prompt, s.sentences, s.answers, s.questions, s.values};
    const auto it = instances_.find(key);
    if (it != instances_.end()) return &it->second;
    TESSERA_TRY(nn::Network network, nn::build_sentences(spec_, s));
    TESSERA_TRY(GraphEval eval,
                GraphEval::make(std::move(network.graph),
                                at::TensorOptions().device(device_).dtype(at::kFloat)));
    return &instances_.emplace(key, std::move(eval)).first->second;
  }

  // A batch in the memory of the device.
  struct Loaded {
    nn::LanguageShape shape;
    std::vector<Tensor> inputs;  // of the network
    Tensor asked, taken, answered, legal, quality;
  };

  Loaded load(const LanguageBatch& batch) const {
    const auto [s, p, g, t, q, n] = batch.shape;
    return {.shape = batch.shape,
            .inputs = {on_device(batch.prompt, {s, p, spec_.word}, device_),
                       on_device(batch.prompt_mask, {s, p}, device_),
                       on_device(batch.words, {s, g, t, nn::answer_columns(spec_)}, device_),
                       on_device(batch.questions, {s, q, spec_.word}, device_),
                       on_device(batch.values, {s, q, n, spec_.value}, device_)},
            .asked = on_device(batch.asked, device_),
            .taken = on_device(batch.taken, device_),
            .answered = on_device(batch.answered, {s * g * t}, device_),
            .legal = on_device(batch.legal, {s * g * t, n}, device_),
            .quality = on_device(batch.quality, {s, g}, device_)};
  }

  // Logarithms of the chances of all values at each answer [answers of the batch, values]; those
  // that are not legal are far below the others.
  Result<Tensor> value_chances(const Loaded& on, const std::vector<Tensor>& weights) {
    const auto [s, p, g, t, q, n] = on.shape;
    TESSERA_TRY(const GraphEval* network, instance(on.shape));
    std::vector<Tensor> inputs = on.inputs;
    inputs.insert(inputs.end(), weights.begin(), weights.end());
    const std::vector<Tensor> out = network->run(inputs);
    const std::int64_t choice = spec_.hyper.at("choice");
    // With the values of all questions about its subject, then those of its own: rows of values for
    // every answer would be much more to move than a product is to compute.
    const Tensor products = at::bmm(out[0].reshape({s, g * t, choice}),
                                    out[1].reshape({s, q * n, choice}).transpose(1, 2))
                                .reshape({s * g * t, q, n});
    const Tensor question = on.asked.remainder(q).reshape({-1, 1, 1}).expand({-1, 1, n});
    const Tensor scores = products.gather(1, question).squeeze(1);
    // Answers that are not there have no legal value: all are equally unlikely, none is NaN.
    return at::log_softmax(scores + (on.legal - 1) * kNever, 1);
  }

  static Tensor chosen(const Tensor& all, const Loaded& on) {
    return all.gather(1, on.taken.unsqueeze(1)).squeeze(1);
  }

  Result<Tensor> loss_of(const LanguageBatch& batch) {
    const Loaded on = load(batch);
    TESSERA_TRY(const Tensor all, value_chances(on, adam_.parts()));
    const Tensor each = chosen(all, on);
    const Tensor& there = on.answered;
    if (loss_.loss == LanguageLoss::kLikelihood) return -mean_where(each, there);
    const std::int64_t s = batch.shape.subjects, g = batch.shape.sentences;
    const auto sums = [&](const Tensor& x) { return (x * there).reshape({s, g, -1}).sum(2); };
    Tensor before;
    {
      const c10::AutoGradMode no_gradients(false);
      TESSERA_TRY(const Tensor reference, value_chances(on, reference_));
      before = sums(chosen(reference, on));
    }
    const Tensor gain = sums(each) - before;
    const Tensor& quality = on.quality;
    const Tensor known = (quality >= 0).to(at::kFloat);
    const Tensor better =
        (quality.unsqueeze(2) - quality.unsqueeze(1) >= loss_.gap).to(at::kFloat) *
        known.unsqueeze(2) * known.unsqueeze(1);
    const Tensor pairs =
        mean_where(at::softplus(-loss_.beta * (gain.unsqueeze(2) - gain.unsqueeze(1))), better);
    const Tensor good =
        ((quality >= 0.5).to(at::kFloat).unsqueeze(2) * there.reshape({s, g, -1})).reshape({-1});
    return pairs - loss_.keep * mean_where(each, good);
  }

  nn::LanguageSpec spec_;
  at::Device device_;
  LearnerOptions options_;
  LanguageLossOptions loss_;
  AdamW adam_;
  std::vector<Tensor> reference_;
  Tensor loss_sum_;
  std::int64_t losses_ = 0;
  std::map<Key, GraphEval> instances_;
};

}  // namespace

Result<std::unique_ptr<LanguageLearner>> make_language_learner(const nn::LanguageSpec& spec,
                                                               const Weights& weights,
                                                               const LearnerOptions& options,
                                                               const LanguageLossOptions& loss) {
  TESSERA_TRY(const at::Device device, prepare_device(options.device, options.threads));
  TESSERA_TRY(nn::Network network, nn::build_choices(spec, 1));
  try {
    auto learner = std::make_unique<TorchLanguageLearner>(spec, std::move(network.parameters),
                                                          device, options, loss);
    TESSERA_DO(learner->set_weights(weights));
    learner->keep_reference();
    return std::unique_ptr<LanguageLearner>(std::move(learner));
  } catch (const std::exception& e) {  // what torch throws
    return make_error(ErrorCode::kUnavailable, "torch cannot use {}: {}", options.device, e.what());
  }
}

}  // namespace tessera::train
