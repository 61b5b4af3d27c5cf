// The C interface of Tessera for C++17 and later: values that free themselves, errors as
// exceptions.
//
//   tsr::Model model = tsr::Model::compile("model.onnx", {.shapes = {{"input", {1, 3, 224,
//   224}}}}); std::vector<float> x(3 * 224 * 224), y(1000); model.session().run({tsr::view(x)},
//   {tsr::view(y)});
//
// (Designated initializers are of C++20.) Header only; link Tessera::tessera.
#ifndef TESSERA_TESSERA_HPP_
#define TESSERA_TESSERA_HPP_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/tessera.h"

namespace tsr {

// What a function of Tessera refused; code() is one of TSR_....
class Error : public std::runtime_error {
 public:
  Error(int code, const std::string& message) : std::runtime_error(message), code_(code) {}
  int code() const noexcept { return code_; }

 private:
  int code_;
};

namespace detail {

inline void check(const tsr_status& status) {
  if (status.code != TSR_OK) throw Error(status.code, status.message);
}

inline const tsr_api& api() {
  const tsr_api* table = tsr_get_api(TSR_API_VERSION);
  if (!table) throw Error(TSR_UNSUPPORTED, "libtessera.so is older than tessera.h");
  return *table;
}

inline const char* text_or_null(const std::string& text) {
  return text.empty() ? nullptr : text.c_str();
}

template <typename T>
tsr_dl_type dl_type() {
  static_assert(std::is_arithmetic_v<T>, "elements of tensors are numbers");
  std::uint8_t code = std::is_signed_v<T> ? 0 : 1;
  if (std::is_floating_point_v<T>) code = 2;
  if (std::is_same_v<std::remove_const_t<T>, bool>) code = 6;
  return {code, static_cast<std::uint8_t>(8 * sizeof(T)), 1};
}

}  // namespace detail

inline std::string version() { return detail::api().tessera_version(); }

// An input or output of a model.
struct TensorInfo {
  std::string name, dtype;          // "f32", "i64", ...
  std::vector<std::int64_t> shape;  // -1: a size that follows from data
  std::int64_t bytes = 0;           // -1: so do these
  bool ranked = true;               // false: any shape
};

// An output with memory of its own.
class Output {
 public:
  explicit Output(tsr_dl_managed_tensor* tensor) : tensor_(tensor) {}

  std::vector<std::int64_t> shape() const {
    const tsr_dl_tensor& t = tensor_->dl_tensor;
    return {t.shape, t.shape + t.ndim};
  }
  std::size_t count() const {
    std::size_t n = 1;
    for (const std::int64_t size : shape()) n *= static_cast<std::size_t>(size);
    return n;
  }
  // TSR_INVALID_ARGUMENT: its elements are of another type.
  template <typename T>
  const T* data() const {
    const tsr_dl_type want = detail::dl_type<T>(), &has = tensor_->dl_tensor.dtype;
    if (want.code != has.code || want.bits != has.bits)
      throw Error(TSR_INVALID_ARGUMENT, "the output has elements of another type");
    return static_cast<const T*>(tensor_->dl_tensor.data);
  }
  const tsr_dl_tensor& tensor() const noexcept { return tensor_->dl_tensor; }

 private:
  struct Free {
    void operator()(tsr_dl_managed_tensor* t) const { t->deleter(t); }
  };
  std::unique_ptr<tsr_dl_managed_tensor, Free> tensor_;
};

// A tensor over memory of the caller, which must outlive the run. Without a shape it has that of
// the model's tensor, and only its size is compared.
class View {
 public:
  View(void* data, tsr_dl_type type, std::size_t count, std::vector<std::int64_t> shape = {},
       tsr_dl_device device = {TSR_DL_CPU, 0})
      : data_(data), type_(type), count_(count), shape_(std::move(shape)), device_(device) {}

  void* data() const { return data_; }
  tsr_dl_type type() const { return type_; }
  std::size_t count() const { return count_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  tsr_dl_device device() const { return device_; }

 private:
  void* data_;
  tsr_dl_type type_;
  std::size_t count_;
  std::vector<std::int64_t> shape_;
  tsr_dl_device device_;
};

// Inputs are only read; the C interface has one type of pointer for both.
template <typename T>
View view(T* data, std::size_t count, std::vector<std::int64_t> shape = {}) {
  return View(const_cast<std::remove_const_t<T>*>(data), detail::dl_type<T>(), count,
              std::move(shape));
}

// std::vector, std::array, std::span and whatever else has data() and size().
template <typename Range>
auto view(Range& values, std::vector<std::int64_t> shape = {})
    -> decltype(values.data(), values.size(), View(nullptr, {}, 0)) {
  return view(values.data(), values.size(), std::move(shape));
}

struct CompileOptions {
  std::map<std::string, std::vector<std::int64_t>> shapes;  // of inputs, by name
  std::map<std::string, std::int64_t> dimensions;           // symbolic ones, by name
  std::map<std::string, std::string> values;  // that inputs always have: "0.5", "[1,2,3]"
  std::int64_t batch = 0;                     // 0: as the model says
  std::string plan;                           // path; empty: none
  bool strict_plan = false;
  std::string cost_model;  // "shipped", paths of weights, or empty: default schedules
  std::string target;      // empty: this machine's processor
  std::string fast_math;   // "tf32" or "bf16x6" on GPUs; empty: nothing is rounded beyond types
  std::string dtype;       // "bf16" or "f16": what f32 is computed in; empty: f32
  int device = 0;
  void* queue = nullptr;
  int threads = 0, build_threads = 0;  // of the code, of the compiler; 0: one per core
};

struct SaveOptions {
  std::string name, target, cc;  // empty: as the C interface has it
  int emit = TSR_EMIT_SHARED;
  int weights = TSR_WEIGHTS_AUTO;
};

class Model;

// Memory and threads of a model; one run at a time, any number of sessions at the same time. Stays
// valid when the model is gone.
class Session {
 public:
  // Tensors in the order of the model.
  void run(const std::vector<View>& inputs, const std::vector<View>& outputs) {
    run(inputs, outputs, nullptr);
  }
  // Of models whose outputs follow from data: output() has them.
  void run(const std::vector<View>& inputs) { run(inputs, {}, nullptr); }
  // A copy of what the last run left.
  Output output(std::size_t index) const {
    tsr_dl_managed_tensor* tensor = nullptr;
    detail::check(
        detail::api().copy_output(handle_.get(), static_cast<std::int32_t>(index), &tensor));
    return Output(tensor);
  }
  // On a stream of the caller (CUstream, cl_command_queue).
  void run(const std::vector<View>& inputs, const std::vector<View>& outputs, void* stream) {
    const std::vector<tsr_dl_tensor> in = tensors(inputs, *inputs_);
    const std::vector<tsr_dl_tensor> out = tensors(outputs, *outputs_);
    run(in.data(), in.size(), out.data(), out.size(), stream);
  }
  // DLPack's tensors as they are.
  void run(const tsr_dl_tensor* inputs, std::size_t input_count, const tsr_dl_tensor* outputs,
           std::size_t output_count, void* stream = nullptr) {
    detail::check(detail::api().run_on_stream(handle_.get(), inputs,
                                              static_cast<std::int32_t>(input_count), outputs,
                                              static_cast<std::int32_t>(output_count), stream));
  }

  tsr_session* handle() const noexcept { return handle_.get(); }

 private:
  friend class Model;
  using Infos = std::shared_ptr<const std::vector<TensorInfo>>;
  struct Free {
    void operator()(tsr_session* s) const { detail::api().free_session(s); }
  };

  Session(tsr_session* handle, Infos inputs, Infos outputs)
      : handle_(handle), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  static std::vector<tsr_dl_tensor> tensors(const std::vector<View>& views,
                                            const std::vector<TensorInfo>& infos) {
    std::vector<tsr_dl_tensor> out;
    for (std::size_t i = 0; i < views.size(); ++i) {
      const View& v = views[i];
      const std::vector<std::int64_t>* shape = &v.shape();
      if (shape->empty() && i < infos.size()) {
        std::int64_t count = 1;
        if (infos[i].bytes < 0)
          throw Error(TSR_INVALID_ARGUMENT, infos[i].name + " follows from data: give its shape");
        for (const std::int64_t size : infos[i].shape) count *= size;
        if (static_cast<std::int64_t>(v.count()) != count) {
          throw Error(TSR_INVALID_ARGUMENT, infos[i].name + " has " + std::to_string(count) +
                                                " elements, " + std::to_string(v.count()) +
                                                " were given");
        }
        shape = &infos[i].shape;
      }
      tsr_dl_tensor t{};
      t.data = v.data();
      t.device = v.device();
      t.ndim = static_cast<std::int32_t>(shape->size());
      t.dtype = v.type();
      t.shape = const_cast<std::int64_t*>(shape->data());
      out.push_back(t);
    }
    return out;
  }

  std::unique_ptr<tsr_session, Free> handle_;
  Infos inputs_, outputs_;
};

class Model {
 public:
  // An ONNX file, or "zoo:NAME".
  static Model compile(const std::string& model, const CompileOptions& options = {}) {
    tsr_model* handle = nullptr;
    with_options(options, [&](const tsr_compile_options& given) {
      detail::check(detail::api().compile(model.c_str(), &given, &handle));
    });
    return Model(handle);
  }

  // The bytes of an ONNX file.
  static Model compile(const void* bytes, std::size_t count, const CompileOptions& options = {}) {
    tsr_model* handle = nullptr;
    with_options(options, [&](const tsr_compile_options& given) {
      detail::check(detail::api().compile_memory(bytes, count, &given, &handle));
    });
    return Model(handle);
  }

  // An artifact: its folder or its shared library.
  static Model load(const std::string& path) {
    tsr_model* handle = nullptr;
    detail::check(detail::api().load(path.c_str(), &handle));
    return Model(handle);
  }

  void save(const std::string& folder, const SaveOptions& options = {}) const {
    tsr_save_options given{};
    given.size = sizeof given;
    given.name = detail::text_or_null(options.name);
    given.target = detail::text_or_null(options.target);
    given.cc = detail::text_or_null(options.cc);
    given.emit = options.emit;
    given.weights = options.weights;
    detail::check(detail::api().save(handle_.get(), folder.c_str(), &given));
  }

  // threads: the caller included; 0: what the model was compiled for.
  Session session(int threads = 0) const {
    tsr_session* handle = nullptr;
    detail::check(detail::api().create_session(handle_.get(), threads, &handle));
    return Session(handle, inputs_, outputs_);
  }

  const std::vector<TensorInfo>& inputs() const { return *inputs_; }
  const std::vector<TensorInfo>& outputs() const { return *outputs_; }
  // What the kernels are: the same digits, the same code.
  std::string plan_digest() const { return detail::api().plan_digest(handle_.get()); }
  tsr_model* handle() const noexcept { return handle_.get(); }

 private:
  struct Free {
    void operator()(tsr_model* m) const { detail::api().free_model(m); }
  };
  using Get = const tsr_tensor_info* (*)(const tsr_model*, std::int32_t);

  explicit Model(tsr_model* handle)
      : handle_(handle),
        inputs_(describe(handle, detail::api().num_inputs(handle), detail::api().input)),
        outputs_(describe(handle, detail::api().num_outputs(handle), detail::api().output)) {}

  static Session::Infos describe(const tsr_model* model, std::int32_t count, Get get) {
    auto out = std::make_shared<std::vector<TensorInfo>>();
    for (std::int32_t i = 0; i < count; ++i) {
      const tsr_tensor_info& t = *get(model, i);
      const std::int32_t rank = t.rank < 0 ? 0 : t.rank;
      out->push_back({t.name, t.dtype, {t.shape, t.shape + rank}, t.bytes, t.rank >= 0});
    }
    return out;
  }

  template <typename Function>
  static void with_options(const CompileOptions& options, Function function) {
    std::vector<tsr_input_shape> shapes;
    for (const auto& [name, shape] : options.shapes)
      shapes.push_back({name.c_str(), shape.data(), static_cast<std::int32_t>(shape.size())});
    std::vector<tsr_dimension> dimensions;
    for (const auto& [name, size] : options.dimensions) dimensions.push_back({name.c_str(), size});
    std::vector<tsr_input_value> values;
    for (const auto& [name, text] : options.values) values.push_back({name.c_str(), text.c_str()});
    tsr_compile_options given{};
    given.size = sizeof given;
    given.shapes = shapes.data();
    given.num_shapes = static_cast<std::int32_t>(shapes.size());
    given.dimensions = dimensions.data();
    given.num_dimensions = static_cast<std::int32_t>(dimensions.size());
    given.build_threads = options.build_threads;
    given.plan = detail::text_or_null(options.plan);
    given.strict_plan = options.strict_plan ? 1 : 0;
    given.cost_model = detail::text_or_null(options.cost_model);
    given.target = detail::text_or_null(options.target);
    given.device = options.device;
    given.queue = options.queue;
    given.threads = options.threads;
    given.fast_math = detail::text_or_null(options.fast_math);
    given.dtype = detail::text_or_null(options.dtype);
    given.values = values.data();
    given.num_values = static_cast<std::int32_t>(values.size());
    given.batch = options.batch;
    function(given);
  }

  std::unique_ptr<tsr_model, Free> handle_;
  Session::Infos inputs_, outputs_;
};

}  // namespace tsr

#endif
