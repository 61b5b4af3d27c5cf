#include "tessera/learn/train/language_trainee.h"

#include <array>
#include <utility>

#include "tessera/learn/train/graph_eval.h"
#include "tessera/learn/train/losses.h"
#include "tessera/learn/train/torch_trainee.h"

namespace tessera::train {
namespace {

using at::Tensor;

// Far below every score, and far from the end of f32.
constexpr double kNever = 1e9;

class SentenceTrainee final : public TorchTrainee<LanguageTrainee> {
 public:
  SentenceTrainee(lm::LanguageSpec spec, std::vector<nn::Parameter> parameters, at::Device device,
                  const TraineeOptions& options, const LanguageLossOptions& loss)
      : TorchTrainee(std::move(parameters), device, options), spec_(std::move(spec)), loss_(loss) {}

  Result<void> step(const LanguageBatch& batch, double lr) override {
    return descend(lr, [&] { return loss_of(batch); });
  }

  Result<Chances> chances(const LanguageBatch& batch) override {
    return predicted([&]() -> Result<Chances> {
      const Loaded on = load(batch);
      TESSERA_TRY(const Tensor all, value_chances(on, adam_.parts()));
      const Tensor taken = (chosen(all, on) * on.answered).to(at::kCPU).contiguous();
      const Tensor best = all.argmax(1).to(at::kCPU).contiguous();
      const std::size_t n = batch.taken.size();
      const float* chance = taken.data_ptr<float>();
      const std::int64_t* value = best.data_ptr<std::int64_t>();
      return Chances{{chance, chance + n}, {value, value + n}};
    });
  }

  // What preferences are compared with: the weights as they are now.
  void keep_reference() {
    if (loss_.loss != LanguageLoss::kPreference) return;
    const c10::AutoGradMode no_gradients(false);
    reference_.clear();
    for (const Tensor& part : adam_.parts()) reference_.push_back(part.detach().clone());
  }

 private:
  using Key = std::array<std::int64_t, 6>;
  static constexpr std::size_t kWords = 2;  // among the inputs of the network

  Result<const GraphEval*> instance(const lm::LanguageShape& s) {
    const Key key = {s.subjects, s.prompt, s.sentences, s.answers, s.questions, s.values};
    const auto it = instances_.find(key);
    if (it != instances_.end()) return &it->second;
    TESSERA_TRY(nn::Network network, lm::build_sentences(spec_, s));
    TESSERA_TRY(GraphEval eval,
                GraphEval::make(std::move(network.graph),
                                at::TensorOptions().device(device_).dtype(at::kFloat)));
    return &instances_.emplace(key, std::move(eval)).first->second;
  }

  // A batch in the memory of the device.
  struct Loaded {
    lm::LanguageShape shape;
    std::vector<Tensor> inputs;  // of the network
    Tensor asked, taken, answered, legal, quality;
  };

  Loaded load(const LanguageBatch& batch) const {
    const auto [s, p, g, t, q, n] = batch.shape;
    return {.shape = batch.shape,
            .inputs = {on_device(batch.prompt, {s, p, spec_.word}, device_),
                       on_device(batch.prompt_mask, {s, p}, device_),
                       on_device(batch.words, {s, g, t, lm::answer_columns(spec_)}, device_),
                       on_device(batch.questions, {s, q, spec_.word}, device_),
                       on_device(batch.values, {s, q, n, spec_.value}, device_)},
            .asked = on_device(batch.asked, device_),
            .taken = on_device(batch.taken, device_),
            .answered = on_device(batch.answered, {s * g * t}, device_),
            .legal = on_device(batch.legal, {s * g * t, n}, device_),
            .quality = on_device(batch.quality, {s, g}, device_)};
  }

  // Log-probabilities of all values at each answer [answers of the batch, values]; those
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
    if (loss_.loss == LanguageLoss::kContrast) return contrast(on);
    TESSERA_TRY(const Tensor all, value_chances(on, adam_.parts()));
    const Tensor each = chosen(all, on);
    const Tensor& there = on.answered;
    if (loss_.loss == LanguageLoss::kLikelihood) return -weighted_mean(each, there);
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
        weighted_mean(at::softplus(-loss_.beta * (gain.unsqueeze(2) - gain.unsqueeze(1))), better);
    const Tensor good =
        ((quality >= 0.5).to(at::kFloat).unsqueeze(2) * there.reshape({s, g, -1})).reshape({-1});
    return pairs - loss_.keep * weighted_mean(each, good);
  }

  // Every sentence twice: as its words are, and with words that tell no quality.
  static Loaded twice(const Loaded& on) {
    const auto [s, p, g, t, q, n] = on.shape;
    Loaded out = on;
    out.shape.sentences = 2 * g;
    const Tensor& words = on.inputs[kWords];
    Tensor untold = words.clone();
    untold.slice(3, words.size(3) - lm::kQualityNumbers).zero_();
    out.inputs[kWords] = at::cat({words, untold}, 1);
    const auto both = [&](const Tensor& x, at::IntArrayRef shape) {
      const Tensor by_subject = x.reshape({s, -1});
      return at::cat({by_subject, by_subject}, 1).reshape(shape);
    };
    out.asked = both(on.asked, {-1});
    out.taken = both(on.taken, {-1});
    out.answered = both(on.answered, {-1});
    out.legal = both(on.legal, {-1, n});
    return out;
  }

  Result<Tensor> contrast(const Loaded& on) {
    const std::int64_t s = on.shape.subjects, g = on.shape.sentences;
    const Loaded doubled = twice(on);
    TESSERA_TRY(const Tensor all, value_chances(doubled, adam_.parts()));
    const Tensor there = on.answered.reshape({s, g, -1});
    const Tensor each = chosen(all, doubled).reshape({s, 2, g, -1});
    const Tensor wished = each.select(1, 0) * there, untold = each.select(1, 1) * there;
    // What should be drawn of each subject's sentences, and what is by the evidence of words. Both
    // probabilities learn: were those without a quality only compared with, what raises both alike
    // would change nothing and never end.
    const Tensor& quality = on.quality;
    const Tensor known = (quality >= 0).to(at::kFloat);
    const Tensor absent = (known - 1) * kNever;
    const Tensor target = at::softmax(quality / loss_.tilt + absent, 1) * known;
    const Tensor evidence = wished.sum(2) - untold.sum(2);
    const Tensor told = at::log_softmax(evidence + absent, 1);
    const Tensor counts = (known.sum(1) > 1).to(at::kFloat);
    const Tensor ranks = -((target * told).sum(1) * counts).sum() / counts.sum().clamp_min(1);
    const Tensor good = target.unsqueeze(2) * there;
    return ranks - loss_.keep * ((wished * good).sum() / good.sum().clamp_min(1e-3) +
                                 weighted_mean(untold, there));
  }

  lm::LanguageSpec spec_;
  LanguageLossOptions loss_;
  std::vector<Tensor> reference_;
  std::map<Key, GraphEval> instances_;
};

}  // namespace

Result<std::unique_ptr<LanguageTrainee>> make_language_trainee(const lm::LanguageSpec& spec,
                                                               const Weights& weights,
                                                               const TraineeOptions& options,
                                                               const LanguageLossOptions& loss) {
  TESSERA_TRY(const at::Device device, prepare_device(options.device, options.threads));
  TESSERA_TRY(nn::Network network, lm::build_choices(spec, 1));
  using Made = Result<std::unique_ptr<LanguageTrainee>>;
  return guarded(ErrorCode::kUnavailable, "torch cannot use " + options.device, [&]() -> Made {
    auto trainee = std::make_unique<SentenceTrainee>(spec, std::move(network.parameters), device,
                                                     options, loss);
    TESSERA_DO(trainee->set_weights(weights));
    trainee->keep_reference();
    return std::unique_ptr<LanguageTrainee>(std::move(trainee));
  });
}

}  // namespace tessera::train
