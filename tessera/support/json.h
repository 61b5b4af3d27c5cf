// A JSON value, and its text. The library that reads and writes the text is compiled in json.cc
// alone: its templates would cost every source that prints a few members more than the rest of the
// source.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

class Json {
 public:
  Json();                            // null
  Json(std::nullptr_t);              // NOLINT(google-explicit-constructor)
  Json(bool value);                  // NOLINT(google-explicit-constructor)
  Json(double value);                // NOLINT(google-explicit-constructor)
  Json(const char* text);            // NOLINT(google-explicit-constructor)
  Json(std::string text);            // NOLINT(google-explicit-constructor)
  Json(std::string_view text);       // NOLINT(google-explicit-constructor)
  template <std::signed_integral T>  // NOLINTNEXTLINE(google-explicit-constructor)
  Json(T value) : Json(Signed{value}) {}
  template <std::unsigned_integral T>  // NOLINTNEXTLINE(google-explicit-constructor)
  Json(T value) : Json(Unsigned{value}) {}
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor)
  Json(const std::vector<T>& values) : Json(array()) {
    for (const auto& value : values) push_back(Json(value));
  }
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor)
  Json(const std::set<T>& values) : Json(std::vector<T>(values.begin(), values.end())) {}
  template <class T>  // NOLINTNEXTLINE(google-explicit-constructor)
  Json(const std::map<std::string, T>& values) : Json(object()) {
    for (const auto& [name, value] : values) (*this)[name] = Json(value);
  }
  // An object when every item is a pair that begins with a name, otherwise an array.
  Json(std::initializer_list<Json> items);

  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json object();

  bool is_null() const { return kind_ == Kind::kNull; }
  bool is_boolean() const { return kind_ == Kind::kBool; }
  bool is_number() const { return kind_ >= Kind::kSigned && kind_ <= Kind::kFloat; }
  bool is_number_float() const { return kind_ == Kind::kFloat; }
  bool is_string() const { return kind_ == Kind::kString; }
  bool is_array() const { return kind_ == Kind::kArray; }
  bool is_object() const { return kind_ == Kind::kObject; }

  // What it holds; a bug in Tessera when it holds another kind.
  const std::string& text() const;
  double number() const;

  // Of an array or an object, whose values begin() to end() are.
  std::size_t size() const { return values_.size(); }
  bool empty() const { return values_.empty(); }
  const Json* begin() const { return values_.data(); }
  const Json* end() const { return values_.data() + values_.size(); }
  // Of an object: its names and values.
  std::vector<std::pair<const std::string&, const Json&>> items() const;
  const Json& at(std::string_view name) const;

  // Null becomes an array, or an object.
  Json& push_back(Json value);
  Json& operator[](std::string_view name);
  // Adds the members of `other`, in place of those of the same name.
  void update(const Json& other);

  // On one line, or indented by that many characters. Bytes that are not UTF-8 are replaced.
  std::string dump(int indent = -1) const;

 private:
  enum class Kind : std::uint8_t {
    kNull,
    kBool,
    kSigned,
    kUnsigned,
    kFloat,
    kString,
    kArray,
    kObject,
  };
  struct Signed {
    std::int64_t value;
  };
  struct Unsigned {
    std::uint64_t value;
  };
  explicit Json(Signed value);
  explicit Json(Unsigned value);
  explicit Json(Kind kind);
  const Json* find(std::string_view name) const;  // null when there is none of the name

  Kind kind_ = Kind::kNull;
  union {
    bool bool_;
    std::int64_t signed_;
    std::uint64_t unsigned_ = 0;
    double float_;
  };
  std::string text_;
  std::vector<std::string> names_;
  std::vector<Json> values_;

  friend struct JsonText;
};

}  // namespace tessera
