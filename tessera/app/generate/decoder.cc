#include "tessera/app/generate/decoder.h"

#include <algorithm>
#include <cstring>

#include "tessera/app/compile/model_source.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/backend/exec/share_constants.h"
#include "tessera/frontend/gguf/architecture.h"
#include "tessera/frontend/gguf/to_model.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

// Rooms for tokens: a program of the next one is compiled when one is full.
constexpr std::int64_t kFirstRoom = 256, kGrowth = 4;
// Fewer tokens than this are read one by one: a chunk takes as long as if it were full.
constexpr std::int64_t kFewTokens = 6;

// Compiled for so many tokens at once and room for so many.
class Program {
 public:
  // Holds the weights that it has in common with the program `beside` (or null) only once.
  static Result<std::unique_ptr<Program>> open(ModelSource& source, CompileOptions options,
                                               std::int64_t tokens, std::int64_t room,
                                               runtime::Device& device, const Program* beside) {
    options.import.symbols[gguf::kSequence] = tokens;
    options.import.symbols[gguf::kCapacity] = room;
    auto out = std::unique_ptr<Program>(new Program(tokens));
    TESSERA_TRY(out->prepared_, prepare_model(source, options, &device));
    if (beside) exec::share_constants(beside->model(), &out->prepared_.model);
    out->runner_ = std::make_unique<exec::ModelRunner>(out->prepared_.model, device);
    return out;
  }

  std::int64_t tokens() const { return tokens_; }
  const exec::CompiledModel& model() const { return prepared_.model; }
  exec::ModelRunner& runner() { return *runner_; }
  std::size_t caches() const { return model().input_types.size() - gguf::kFirstCache; }
  const graph::TensorType& cache_type(std::size_t i) const {
    return model().input_types[gguf::kFirstCache + i];
  }
  float* cache(std::size_t i) {
    return static_cast<float*>(runner_->input_data(gguf::kFirstCache + i));
  }

  // Both read the same caches from now on.
  Result<void> share_caches(const Program& with) {
    std::vector<exec::ModelRunner::SharedInput> pairs;
    for (std::size_t i = 0; i < caches(); ++i)
      pairs.push_back({gguf::kFirstCache + i, gguf::kFirstCache + i});
    return runner_->share_inputs(*with.runner_, pairs);
  }

  // The logits behind the last of `tokens`, at most tokens() of them, which follow `position`
  // others. Their rows are put into the caches.
  Result<const float*> run(std::span<const std::int32_t> tokens, std::int64_t position) {
    auto* ids = static_cast<std::int64_t*>(runner_->input_data(0));
    std::fill_n(std::copy(tokens.begin(), tokens.end(), ids),
                tokens_ - static_cast<std::int64_t>(tokens.size()), 0);
    *static_cast<std::int64_t*>(runner_->input_data(1)) = position;
    *static_cast<std::int64_t*>(runner_->input_data(2)) =
        static_cast<std::int64_t>(tokens.size()) - 1;
    TESSERA_DO(runner_->run());
    for (std::size_t i = 0; i < caches(); ++i)
      append(i, position, static_cast<std::int64_t>(tokens.size()));
    return static_cast<const float*>(runner_->output_data(0));
  }

 private:
  explicit Program(std::int64_t tokens) : tokens_(tokens) {}

  void append(std::size_t i, std::int64_t position, std::int64_t count) {
    const Shape& shape = cache_type(i).shape;  // [1, heads, room, size]
    const std::int64_t room = shape[2], size = shape[3];
    const auto* rows = static_cast<const float*>(runner_->output_data(gguf::kFirstNewRows + i));
    for (std::int64_t h = 0; h < shape[1]; ++h) {
      std::copy_n(rows + h * tokens_ * size, count * size, cache(i) + (h * room + position) * size);
    }
  }

  std::int64_t tokens_;
  exec::PreparedModel prepared_;
  std::unique_ptr<exec::ModelRunner> runner_;
};

}  // namespace

class Decoder::Impl {
 public:
  Impl(gguf::File f, const DecoderOptions& o, const gguf::Architecture& a, std::string path)
      : file(std::move(f)), options(o), source(std::move(path)), vocabulary(a.vocabulary) {
    const std::int64_t most = std::min(a.context, kMostCapacity);
    capacity = o.capacity > 0 ? std::min(o.capacity, a.context) : most;
    room = std::min(kFirstRoom, capacity);
  }

  // The program for one token or for a chunk, with the caches as they are.
  Result<Program*> program(bool chunk) {
    std::unique_ptr<Program>& wanted = chunk ? reads_ : decodes_;
    std::unique_ptr<Program>& other = chunk ? decodes_ : reads_;
    if (wanted) return wanted.get();
    const std::int64_t tokens = chunk ? options.chunk : 1;
    const Program* beside = other ? other.get() : old_.get();
    TESSERA_TRY(wanted, Program::open(source, options.compile, tokens, room, *device, beside));
    if (other) {
      TESSERA_DO(wanted->share_caches(*other));
    } else {
      clear(*wanted);
    }
    return wanted.get();
  }

  // Makes room for so many tokens in all.
  Result<void> reserve(std::int64_t tokens) {
    if (tokens <= room) return {};
    const std::int64_t before = room;
    while (room < tokens) room = std::min(room * kGrowth, capacity);
    old_ = std::move(decodes_ ? decodes_ : reads_);
    decodes_.reset();
    reads_.reset();
    const bool chunk = old_->tokens() > 1;
    const Result<Program*> next = program(chunk);
    if (!next.ok()) {
      room = before;
      (chunk ? reads_ : decodes_) = std::move(old_);
      return next.error();
    }
    move_caches(*old_, **next);
    old_.reset();
    return {};
  }

  gguf::File file;
  DecoderOptions options;
  ModelSource source;
  std::unique_ptr<runtime::Device> device;
  std::int64_t vocabulary = 0, capacity = 0, room = 0, position = 0;

 private:
  // Rows that are not read are multiplied by 0: they must be numbers.
  static void clear(Program& program) {
    for (std::size_t i = 0; i < program.caches(); ++i)
      std::fill_n(program.cache(i), elements(program.cache_type(i).shape), 0.0F);
  }

  void move_caches(Program& from, Program& to) const {
    for (std::size_t i = 0; i < from.caches(); ++i) {
      const Shape &old = from.cache_type(i).shape, &now = to.cache_type(i).shape;
      for (std::int64_t h = 0; h < old[1]; ++h) {
        std::copy_n(from.cache(i) + h * old[2] * old[3], position * old[3],
                    to.cache(i) + h * now[2] * now[3]);
      }
    }
  }

  // One of the first two is always there; the third while its caches are moved to a larger one.
  std::unique_ptr<Program> reads_, decodes_, old_;
};

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Result<Decoder> Decoder::open(const std::string& path, const DecoderOptions& options) {
  TESSERA_TRY(gguf::File file, gguf::File::open(path));
  TESSERA_TRY(const gguf::Architecture architecture, gguf::read_architecture(file));
  if (options.chunk < 2 || options.capacity < 0)
    return invalid("{} tokens at once, {} in all", options.chunk, options.capacity);
  if (options.compile.target.is_gpu())
    return make_error(ErrorCode::kUnsupported, "decoding on {}", options.compile.target.name);
  auto impl = std::make_unique<Impl>(std::move(file), options, architecture, path);
  TESSERA_TRY(impl->device,
              runtime::open_device(options.compile.target.kind,
                                   {.threads = options.compile.target.code_threads()}));
  TESSERA_DO(impl->program(/*chunk=*/false));
  return Decoder(std::move(impl));
}

Result<std::span<const float>> Decoder::step(std::span<const std::int32_t> tokens) {
  if (tokens.empty()) return invalid("no tokens");
  for (const std::int32_t t : tokens) {
    if (t < 0 || t >= vocabulary())
      return invalid("the model has {} tokens, not {}", vocabulary(), t);
  }
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > capacity() - position())
    return invalid("{} tokens behind {} others: there is room for {}", count, position(),
                   capacity());
  TESSERA_DO(impl_->reserve(position() + count));
  const std::int64_t begun = position();
  const float* logits = nullptr;
  while (!tokens.empty()) {
    const bool chunk = static_cast<std::int64_t>(tokens.size()) >= kFewTokens;
    const Result<Program*> program = impl_->program(chunk);
    const auto part = tokens.first(
        std::min(tokens.size(), static_cast<std::size_t>(chunk ? impl_->options.chunk : 1)));
    const Result<const float*> run =
        program.ok() ? (*program)->run(part, position()) : Result<const float*>(program.error());
    if (!run.ok()) {
      impl_->position = begun;
      return run.error();
    }
    logits = *run;
    impl_->position += static_cast<std::int64_t>(part.size());
    tokens = tokens.subspan(part.size());
  }
  return std::span<const float>(logits, static_cast<std::size_t>(vocabulary()));
}

Result<void> Decoder::warm_up(std::int64_t tokens) {
  if (tokens < 0 || tokens > capacity())
    return invalid("{} tokens: there is room for {}", tokens, capacity());
  TESSERA_DO(impl_->reserve(tokens));
  for (const bool chunk : {false, true}) {
    if (const auto program = impl_->program(chunk); !program.ok()) return program.error();
  }
  return {};
}

void Decoder::rewind(std::int64_t position) {
  impl_->position = std::clamp<std::int64_t>(position, 0, impl_->position);
}

std::int64_t Decoder::position() const { return impl_->position; }
std::int64_t Decoder::capacity() const { return impl_->capacity; }
std::int64_t Decoder::vocabulary() const { return impl_->vocabulary; }
const gguf::File& Decoder::file() const { return impl_->file; }

}  // namespace tessera::app
