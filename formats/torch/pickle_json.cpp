#include "formats/torch/pickle_json.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe::formats {
namespace {

/// Writes values of a pickle as JSON. The tree limits the nesting, max_plain_json_bytes limits the length.
class json_printer {
 public:
  explicit json_printer(const pickle_tree& tree) : tree_(tree) {}

  bool value(pickle_ref v) {
    if (text_.size() > max_plain_json_bytes) return false;
    switch (tree_.kind(v)) {
      case pickle_kind::none:
        return add("null");
      case pickle_kind::boolean:
        return add(tree_.boolean(v) ? "true" : "false");
      case pickle_kind::integer:
        return add(fmt::to_string(tree_.integer(v)));
      case pickle_kind::real:
        return std::isfinite(tree_.real(v)) && add(nlohmann::json(tree_.real(v)).dump());
      case pickle_kind::text:
        return quoted(tree_.text(v));
      case pickle_kind::list:
      case pickle_kind::tuple:
      case pickle_kind::set:
        return array(v);
      case pickle_kind::dict:
        return object(v);
      case pickle_kind::object:
        return is_namespace(v) && tree_.state(v) && tree_.kind(*tree_.state(v)) == pickle_kind::dict &&
               object(*tree_.state(v));
      default:
        return false;
    }
  }

  std::string text_;

 private:
  bool add(std::string_view text) {
    text_ += text;
    return true;
  }

  bool quoted(std::string_view text) {
    if (text.size() > max_plain_json_bytes) return false;
    try {
      return add(nlohmann::json(text).dump());
    } catch (const nlohmann::json::exception&) {
      return false;  // the text is not UTF-8
    }
  }

  bool array(pickle_ref v) {
    text_ += '[';
    const char* between = "";
    for (const pickle_ref item : tree_.items(v)) {
      text_ += between;
      between = ",";
      if (!value(item)) return false;
    }
    return add("]");
  }

  bool object(pickle_ref v) {
    text_ += '{';
    const auto items = tree_.items(v);
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (i > 0) text_ += ',';
      const auto kind = tree_.kind(items[i]);
      if (kind != pickle_kind::text && kind != pickle_kind::integer) return false;
      if (!quoted(kind == pickle_kind::text ? tree_.text(items[i]) : fmt::to_string(tree_.integer(items[i]))))
        return false;
      text_ += ':';
      if (!value(items[i + 1])) return false;
    }
    return add("}");
  }

  [[nodiscard]] bool is_namespace(pickle_ref v) const {
    return tree_.is_call(v, "argparse", "Namespace") || tree_.is_call(v, "types", "SimpleNamespace");
  }

  const pickle_tree& tree_;
};

}  // namespace

std::optional<std::string> plain_json(const pickle_tree& tree, pickle_ref value) {
  json_printer out(tree);
  if (!out.value(value) || out.text_.size() > max_plain_json_bytes) return std::nullopt;
  return std::move(out.text_);
}

}  // namespace troupe::formats
