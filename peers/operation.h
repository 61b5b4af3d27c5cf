// What one peer implements: `version` and `make_operation`, both called by module.cc, the C border.
//
// Exceptions carry errors inside a module because most of the libraries throw; module.cc catches
// all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "peers/spec.h"

namespace tessera::peers {

// The library has no such operation; the message is shown to the user.
class Unsupported : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Zeroed floats, aligned to 64 bytes and readable 64 bytes past the end (XNNPACK reads ahead).
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::int64_t count);

  float* data() { return data_.get(); }
  const float* data() const { return data_.get(); }
  std::int64_t count() const { return count_; }
  std::size_t bytes() const { return static_cast<std::size_t>(count_) * sizeof(float); }

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
  std::int64_t count_ = 0;
};

class Operation {
 public:
  virtual ~Operation() = default;

  // Whether it computes in that type; data is given and taken as f32 in any case.
  virtual bool takes(Element element) const { return element == Element::kF32; }

  // Takes over new inputs, in canonical layout, and packs what is constant. Called once all inputs
  // are known and again whenever one changed; `inputs` outlives the operation.
  virtual void bind(const std::vector<Buffer>& inputs) = 0;

  // The timed call.
  virtual void run() = 0;

  // Seconds of `calls` calls by the clock of the device they run on, without the way there;
  // nullopt: they run in this process.
  virtual std::optional<double> time(int /*calls*/) { return std::nullopt; }

  // Writes the result in canonical layout.
  virtual void get_output(float* data) = 0;
};

// Empty when the library is opened at run time and was not found.
std::string version();

// Throws Unsupported.
std::unique_ptr<Operation> make_operation(const Spec& spec, int threads);

// `size` as the library's int; throws Unsupported when it does not fit.
int to_int(std::int64_t size);

// Transposes a row-major [rows, columns] matrix.
Buffer transposed(const float* data, std::int64_t rows, std::int64_t columns);

// Copies an image batch [n, h, w, c] between layouts; `from` names the layout of `source`.
void copy_image(const float* source, Layout from, float* target, Layout to, std::int64_t n,
                std::int64_t h, std::int64_t w, std::int64_t c);

// Weights [co, ci/groups, kh, kw] as [co, kh, kw, ci/groups].
Buffer channels_last_weights(const ConvShape& conv, const float* weights);

// y = max(y + bias, 0) for each row of a [rows, columns] matrix; one thread.
void add_bias_relu(float* y, const float* bias, std::int64_t rows, std::int64_t columns);

}  // namespace tessera::peers
