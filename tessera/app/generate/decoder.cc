#include "tessera/app/generate/decoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <tuple>

#include "tessera/app/compile/model_source.h"
#include "tessera/app/compile/open_model.h"
#include "tessera/frontend/checkpoint/checkpoint.h"
#include "tessera/frontend/gguf/architecture.h"
#include "tessera/frontend/gguf/to_model.h"
#include "tessera/machine/runtime/device/devices.h"
#include "tessera/support/invalid.h"

namespace tessera::app {
namespace {

// Rooms for tokens are this, one and a half times it, twice that and so on: all of a room is read
// for each token, and a program of the next one is compiled when one is full.
constexpr std::int64_t kFirstRoom = 256;

std::int64_t room_for(std::int64_t tokens) {
  std::int64_t room = kFirstRoom;
  while (room < tokens) room *= 2;
  return room > kFirstRoom && tokens <= room / 4 * 3 ? room / 4 * 3 : room;
}

// Fewer tokens than this are read one by one: a chunk takes as long as if it were full.
constexpr std::int64_t kFewTokens = 6;

// Where a cache has its rows: the elements of one lie side by side, or those of all rows do.
struct CacheRows {
  std::int64_t heads = 1, room = 0, size = 1;
  bool turned = false;  // [1, heads, size, room] instead of [1, heads, room, size]

  CacheRows(const Shape& shape, bool is_turned)
      : heads(shape[1]),
        room(shape[is_turned ? 3 : 2]),
        size(shape[is_turned ? 2 : 3]),
        turned(is_turned) {}

  std::int64_t at(std::int64_t head, std::int64_t row, std::int64_t element) const {
    return turned ? (head * size + element) * room + row : (head * room + row) * size + element;
  }
};

// How tokens are read, each by a program of its own.
enum class Reading : std::uint8_t { kOne, kEach, kChunk };
constexpr std::array kReadings = {Reading::kOne, Reading::kEach, Reading::kChunk};

// For so many tokens at once, the logits of so many, and room for so many.
struct Sizes {
  std::int64_t tokens = 1, wanted = 1, room = 0;
  bool operator<(const Sizes& other) const {
    return std::tie(tokens, wanted, room) < std::tie(other.tokens, other.wanted, other.room);
  }
};

using Prepared = std::shared_ptr<const exec::PreparedModel>;

// Code and weights, which the decoders of a model share as long as one of them needs them.
class Library {
 public:
  Library(std::string path, CompileOptions options)
      : source_(std::move(path)), options_(std::move(options)) {
    // Single tokens read weights as narrow as the file has them. A wide copy for chunks would take
    // many times the memory of all else.
    options_.skip_passes.emplace_back("choose_storage");
  }

  Result<Prepared> prepared(const Sizes& sizes, runtime::Device& device) {
    const std::lock_guard lock(mutex_);
    if (const Prepared there = kept_[sizes].lock()) return there;
    CompileOptions options = options_;
    options.import.symbols[gguf::kSequence] = sizes.tokens;
    options.import.symbols[gguf::kWanted] = sizes.wanted;
    options.import.symbols[gguf::kCapacity] = sizes.room;
    TESSERA_TRY(exec::PreparedModel made, prepare_model(source_, options, &device));
    const auto out = std::make_shared<const exec::PreparedModel>(std::move(made));
    kept_[sizes] = out;
    return out;
  }

 private:
  std::mutex mutex_;
  ModelSource source_;
  CompileOptions options_;
  std::map<Sizes, std::weak_ptr<const exec::PreparedModel>> kept_;
};

// A program with memory of its own.
class Program {
 public:
  Program(const Sizes& sizes, Prepared prepared, runtime::Device& device)
      : sizes_(sizes), prepared_(std::move(prepared)), runner_(prepared_->model, device) {}

  std::int64_t tokens() const { return sizes_.tokens; }
  const exec::CompiledModel& model() const { return prepared_->model; }
  std::size_t caches() const { return model().input_types.size() - gguf::kFirstCache; }
  const std::string& cache_name(std::size_t i) const {
    return model().input_names[gguf::kFirstCache + i];
  }
  const graph::TensorType& cache_type(std::size_t i) const {
    return model().input_types[gguf::kFirstCache + i];
  }
  CacheRows cache_rows(std::size_t i) const {
    return {cache_type(i).shape, i % gguf::kCachesOfLayer == gguf::kKeyCache};
  }
  float* cache(std::size_t i) {
    return static_cast<float*>(runner_.input_data(gguf::kFirstCache + i));
  }

  // The first `count` of `stride` rows of each head go behind `position` others in the cache.
  void put_rows(std::size_t i, const float* rows, std::int64_t stride, std::int64_t position,
                std::int64_t count) {
    const CacheRows to = cache_rows(i);
    float* const place = cache(i);
    for (std::int64_t h = 0; h < to.heads; ++h) {
      for (std::int64_t t = 0; t < count; ++t) {
        const float* row = rows + (h * stride + t) * to.size;
        for (std::int64_t e = 0; e < to.size; ++e) place[to.at(h, position + t, e)] = row[e];
      }
    }
  }
  // Rows `from` to `to` of all caches become 0.
  void clear_rows(std::int64_t from, std::int64_t to) {
    for (std::size_t i = 0; i < caches(); ++i) {
      const CacheRows rows = cache_rows(i);
      for (std::int64_t h = 0; h < rows.heads; ++h) {
        for (std::int64_t t = from; t < to; ++t) {
          for (std::int64_t e = 0; e < rows.size; ++e) cache(i)[rows.at(h, t, e)] = 0;
        }
      }
    }
  }
  // Whether the last run put nothing but numbers into the caches.
  bool wrote_numbers() const { return wrote_numbers_; }

  // The first `count` rows of each head: f32 [heads, count, size].
  HostTensor rows(std::size_t i, std::int64_t count) {
    const CacheRows from = cache_rows(i);
    const float* const place = cache(i);
    HostTensor out(DType::kF32, {from.heads, count, from.size});
    auto* next = out.as<float>();
    for (std::int64_t h = 0; h < from.heads; ++h) {
      for (std::int64_t t = 0; t < count; ++t) {
        for (std::int64_t e = 0; e < from.size; ++e) *next++ = place[from.at(h, t, e)];
      }
    }
    return out;
  }

  // Both read the same caches from now on.
  Result<void> share_caches(const Program& with) {
    std::vector<exec::ModelRunner::SharedInput> pairs;
    for (std::size_t i = 0; i < caches(); ++i)
      pairs.push_back({gguf::kFirstCache + i, gguf::kFirstCache + i});
    return runner_.share_inputs(with.runner_, pairs);
  }

  // At most tokens() tokens, which follow `position` others. Their rows are put into the caches.
  // The logits of the last ones, as many as are wanted; behind each, where there are fewer tokens.
  Result<const float*> run(std::span<const std::int32_t> tokens, std::int64_t position) {
    auto* ids = static_cast<std::int64_t*>(runner_.input_data(0));
    const auto count = static_cast<std::int64_t>(tokens.size());
    std::fill_n(std::copy(tokens.begin(), tokens.end(), ids), sizes_.tokens - count, 0);
    *static_cast<std::int64_t*>(runner_.input_data(1)) = position;
    auto* last = static_cast<std::int64_t*>(runner_.input_data(2));
    const std::int64_t first = std::max<std::int64_t>(count - sizes_.wanted, 0);
    for (std::int64_t i = 0; i < sizes_.wanted; ++i) last[i] = std::min(first + i, count - 1);
    TESSERA_DO(runner_.run());
    wrote_numbers_ = true;
    for (std::size_t i = 0; i < caches(); ++i) append(i, position, count);
    return static_cast<const float*>(runner_.output_data(0));
  }

 private:
  void append(std::size_t i, std::int64_t position, std::int64_t count) {
    const auto* rows = static_cast<const float*>(runner_.output_data(gguf::kFirstNewRows + i));
    put_rows(i, rows, sizes_.tokens, position, count);
    const CacheRows to = cache_rows(i);
    for (std::int64_t h = 0; h < to.heads && wrote_numbers_; ++h) {
      const float* first = rows + h * sizes_.tokens * to.size;
      wrote_numbers_ = std::all_of(first, first + count * to.size, finite);
    }
  }
  static bool finite(float v) { return std::isfinite(v); }

  Sizes sizes_;
  Prepared prepared_;
  exec::ModelRunner runner_;
  bool wrote_numbers_ = true;
};

}  // namespace

class Decoder::Impl {
 public:
  Impl(gguf::File f, const DecoderOptions& o, const gguf::Architecture& a,
       std::shared_ptr<Library> l)
      : file(std::move(f)), options(o), library(std::move(l)), vocabulary(a.vocabulary) {
    const std::int64_t most = std::min(a.context, kMostCapacity);
    capacity = o.capacity > 0 ? std::min(o.capacity, a.context) : most;
    room = std::min(kFirstRoom, capacity);
  }

  // With the caches as they are.
  Result<Program*> program(Reading how) {
    std::unique_ptr<Program>& wanted = programs_[index(how)];
    if (wanted) return wanted.get();
    const Program* other = any();
    TESSERA_TRY(Prepared prepared, library->prepared(sizes(how), *device));
    wanted = std::make_unique<Program>(sizes(how), std::move(prepared), *device);
    if (other != nullptr) {
      if (const Result<void> shared = wanted->share_caches(*other); !shared.ok()) {
        wanted.reset();
        return shared.error();
      }
    } else {
      clear(*wanted);
    }
    return wanted.get();
  }

  // Whatever there is of them: they have the same caches.
  Program* any() const {
    for (const std::unique_ptr<Program>& p : programs_) {
      if (p) return p.get();
    }
    return nullptr;
  }

  // Makes room for so many tokens in all.
  Result<void> reserve(std::int64_t tokens) {
    if (tokens <= room) return {};
    const std::int64_t before = room;
    room = std::min(room_for(tokens), capacity);
    if (any() == nullptr) return {};
    std::size_t kept = 0;
    while (!programs_[kept]) ++kept;
    old_ = std::move(programs_[kept]);
    for (std::unique_ptr<Program>& p : programs_) p.reset();
    const Result<Program*> next = program(kReadings[kept]);
    if (!next.ok()) {
      room = before;
      programs_[kept] = std::move(old_);
      return next.error();
    }
    move_caches(*old_, **next);
    old_.reset();
    return {};
  }

  // Tokens that the program may read at once; its logits.
  Result<const float*> read(Reading how, std::span<const std::int32_t> tokens) {
    TESSERA_TRY(Program* const reader, program(how));
    TESSERA_TRY(const float* logits, reader->run(tokens, position));
    if (!reader->wrote_numbers() && no_numbers_from_ < 0) no_numbers_from_ = position;
    position += std::ssize(tokens);
    return logits;
  }

  // As if no token behind the first ones had been read. Rows that are not read are multiplied by 0:
  // they must be numbers.
  void rewind(std::int64_t to) {
    if (no_numbers_from_ >= 0) {
      any()->clear_rows(to, position);
      if (to <= no_numbers_from_) no_numbers_from_ = -1;
    }
    position = to;
  }

  // Bytes of the constants that the programs read, each counted once.
  std::int64_t weight_bytes() const {
    std::map<const void*, std::size_t> all;
    for (const std::unique_ptr<Program>& p : programs_) {
      if (!p) continue;
      for (const HostTensor& t : p->model().constants) all[t.data()] = t.bytes();
    }
    std::size_t out = 0;
    for (const auto& [place, bytes] : all) out += bytes;
    return static_cast<std::int64_t>(out);
  }

  gguf::File file;
  DecoderOptions options;
  std::shared_ptr<Library> library;
  std::unique_ptr<runtime::Device> device;
  std::int64_t vocabulary = 0, capacity = 0, room = 0, position = 0;

 private:
  static std::size_t index(Reading how) { return static_cast<std::size_t>(how); }
  Sizes sizes(Reading how) const {
    if (how == Reading::kOne) return {1, 1, room};
    if (how == Reading::kEach) return {options.each, options.each, room};
    return {options.chunk, 1, room};
  }

  static void clear(Program& program) {
    for (std::size_t i = 0; i < program.caches(); ++i)
      std::fill_n(program.cache(i), elements(program.cache_type(i).shape), 0.0F);
  }

  void move_caches(Program& from, Program& to) const {
    for (std::size_t i = 0; i < from.caches(); ++i)
      to.put_rows(i, from.rows(i, position).as<float>(), position, 0, position);
  }

  // One of the first is there once something was read; the last while its caches are moved to a
  // larger one.
  std::array<std::unique_ptr<Program>, kReadings.size()> programs_;
  std::unique_ptr<Program> old_;
  std::int64_t no_numbers_from_ = -1;  // the first row that may have something else; -1: none
};

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::Decoder(Decoder&&) noexcept = default;
Decoder& Decoder::operator=(Decoder&&) noexcept = default;
Decoder::~Decoder() = default;

Result<Decoder> Decoder::open(const std::string& path, const DecoderOptions& options) {
  TESSERA_TRY(gguf::File file, checkpoint::open(path));
  TESSERA_TRY(const gguf::Architecture architecture, gguf::read_architecture(file));
  if (options.chunk < 2 || options.each < 1 || options.capacity < 0) {
    return invalid("{} and {} tokens at once, {} in all", options.chunk, options.each,
                   options.capacity);
  }
  if (options.compile.target.is_gpu())
    return make_error(ErrorCode::kUnsupported, "decoding on {}", options.compile.target.name);
  // Only what is wrong with the file is found now: how much room is wanted is not known yet.
  if (const auto model = gguf::to_model(file, gguf::Values::kLeft); !model.ok())
    return model.error();
  return start(std::make_unique<Impl>(std::move(file), options, architecture,
                                      std::make_shared<Library>(path, options.compile)));
}

Result<Decoder> Decoder::another() const {
  TESSERA_TRY(const gguf::Architecture architecture, gguf::read_architecture(file()));
  return start(std::make_unique<Impl>(file(), impl_->options, architecture, impl_->library));
}

Result<Decoder> Decoder::start(std::unique_ptr<Impl> impl) {
  const target::Target& target = impl->options.compile.target;
  TESSERA_TRY(impl->device, runtime::open_device(target.kind, {.threads = target.code_threads()}));
  return Decoder(std::move(impl));
}

Result<void> Decoder::check(std::span<const std::int32_t> tokens) const {
  if (tokens.empty()) return invalid("no tokens");
  for (const std::int32_t t : tokens) {
    if (t < 0 || t >= vocabulary())
      return invalid("the model has {} tokens, not {}", vocabulary(), t);
  }
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count > capacity() - position()) {
    return invalid("{} tokens behind {} others: there is room for {}", count, position(),
                   capacity());
  }
  return {};
}

Result<std::span<const float>> Decoder::step(std::span<const std::int32_t> tokens) {
  TESSERA_DO(check(tokens));
  TESSERA_DO(impl_->reserve(position() + std::ssize(tokens)));
  const std::int64_t begun = position();
  const float* logits = nullptr;
  while (!tokens.empty()) {
    const bool chunk = static_cast<std::int64_t>(tokens.size()) >= kFewTokens;
    const auto part = tokens.first(
        std::min(tokens.size(), static_cast<std::size_t>(chunk ? impl_->options.chunk : 1)));
    const Result<const float*> run = impl_->read(chunk ? Reading::kChunk : Reading::kOne, part);
    if (!run.ok()) {
      impl_->rewind(begun);
      return run.error();
    }
    logits = *run;
    tokens = tokens.subspan(part.size());
  }
  return std::span<const float>(logits, static_cast<std::size_t>(vocabulary()));
}

Result<std::span<const float>> Decoder::step_each(std::span<const std::int32_t> tokens) {
  if (std::ssize(tokens) > each())
    return invalid("{} tokens with logits each, {} at most", tokens.size(), each());
  if (tokens.size() == 1) return step(tokens);
  TESSERA_DO(check(tokens));
  TESSERA_DO(impl_->reserve(position() + std::ssize(tokens)));
  TESSERA_TRY(const float* logits, impl_->read(Reading::kEach, tokens));
  return std::span<const float>(logits, tokens.size() * static_cast<std::size_t>(vocabulary()));
}

Result<void> Decoder::warm_up(std::int64_t tokens) {
  if (tokens < 0 || tokens > capacity())
    return invalid("{} tokens: there is room for {}", tokens, capacity());
  TESSERA_DO(impl_->reserve(tokens));
  for (const Reading how : kReadings) {
    if (how == Reading::kEach && each() == 1) continue;
    if (const auto program = impl_->program(how); !program.ok()) return program.error();
  }
  return {};
}

NamedTensors Decoder::memory() const {
  NamedTensors out;
  Program* const program = impl_->any();
  if (program == nullptr) return out;  // nothing was read
  for (std::size_t i = 0; i < program->caches(); ++i)
    out.push_back({program->cache_name(i), program->rows(i, position())});
  return out;
}

Result<void> Decoder::restore(const NamedTensors& memory, std::int64_t position) {
  if (position < 0 || position > capacity())
    return invalid("{} tokens: there is room for {}", position, capacity());
  TESSERA_DO(impl_->reserve(position));
  if (impl_->any() == nullptr) TESSERA_DO(impl_->program(Reading::kOne));
  Program& program = *impl_->any();
  std::vector<const HostTensor*> rows;
  for (std::size_t i = 0; i < program.caches(); ++i) {
    const std::string& name = program.cache_name(i);
    const auto at = std::ranges::find(memory, name, &NamedTensor::name);
    if (at == memory.end()) return invalid("there is no tensor '{}'", name);
    const CacheRows to = program.cache_rows(i);
    const Shape wanted = {to.heads, position, to.size};
    if (at->tensor.dtype() != DType::kF32 || at->tensor.shape() != wanted) {
      return invalid("tensor '{}' is {} {}, f32 {} needed", name, to_text(at->tensor.dtype()),
                     to_text(at->tensor.shape()), to_text(wanted));
    }
    const auto* values = at->tensor.as<float>();
    // Those that are forgotten later are still multiplied by 0.
    if (!std::all_of(values, values + at->tensor.size(), [](float v) { return std::isfinite(v); }))
      return invalid("tensor '{}' has elements that are not finite", name);
    rows.push_back(&at->tensor);
  }
  impl_->rewind(0);
  for (std::size_t i = 0; i < rows.size(); ++i)
    program.put_rows(i, rows[i]->as<float>(), position, 0, position);
  impl_->position = position;
  return {};
}

void Decoder::rewind(std::int64_t position) {
  impl_->rewind(std::clamp<std::int64_t>(position, 0, impl_->position));
}

std::int64_t Decoder::position() const { return impl_->position; }
std::int64_t Decoder::capacity() const { return impl_->capacity; }
std::int64_t Decoder::vocabulary() const { return impl_->vocabulary; }
std::int64_t Decoder::weight_bytes() const { return impl_->weight_bytes(); }
std::int64_t Decoder::each() const { return impl_->options.each; }
const gguf::File& Decoder::file() const { return impl_->file; }

}  // namespace tessera::app
