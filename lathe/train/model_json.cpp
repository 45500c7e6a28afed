#include "lathe/train/model_json.h"

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "lathe/base/config.h"
#include "lathe/base/error.h"
#include "lathe/base/view.h"
#include "lathe/model/config.h"

namespace lathe::train {
namespace {

using Json = nlohmann::ordered_json;

struct Writer {
  Json& j;
  template <class T>
  void operator()(const char* key, const T& value, const char*, const Rule& = {}) {
    j[key] = value;
  }
};

struct Reader {
  const Json& j;
  const std::string& path;

  template <class T>
  void operator()(const char* key, T& value, const char*, const Rule& = {}) {
    const auto found = j.find(key);
    if (found == j.end()) throw Error("the model has no '{}'", key).at(path);
    if (!fits<T>(*found)) throw Error("the model's '{}' is of another type", key).at(path);
    value = found->template get<T>();
  }

  template <class T>
  static bool fits(const Json& x) {
    if constexpr (std::is_same_v<T, bool>) return x.is_boolean();
    if constexpr (std::is_same_v<T, std::string>) return x.is_string();
    if constexpr (std::is_floating_point_v<T>) return x.is_number();
    // Sizes this large belong to no model; they only make products of them overflow.
    if constexpr (std::is_integral_v<T>)
      return x.is_number_integer() && x.get<i64>() >= -1 && x.get<i64>() < (i64{1} << 31);
  }
};

}  // namespace

Json to_json(const model::ModelConfig& m) {
  Json j = Json::object();
  Writer w{j};
  model::ModelConfig copy = m;
  visit(w, copy);
  return j;
}

model::ModelConfig model_from_json(const Json& j, const std::string& path) {
  if (!j.is_object()) throw Error("the model is not an object").at(path);
  model::ModelConfig m;
  Reader r{j, path};
  visit(r, m);
  return m;
}

}  // namespace lathe::train
