// Converts between checked values and the fields of job_config. Leaves the accepted values to values.cpp.
#include <fmt/format.h>

#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

template <class T>
struct is_item_field : std::false_type {};
template <class T>
struct is_item_field<item_field_of<T>> : std::true_type {};

/// Visitor that writes one value into a field of job_config.
class writer {
 public:
  writer(const key_info& key, const node& value, const std::filesystem::path& folder)
      : key_(key), value_(value), folder_(folder) {}

  void into(bool& out) const { out = *boolean_in(value_); }
  void into(uint32_t& out) const { out = static_cast<uint32_t>(integer_in(value_)->magnitude); }
  void into(uint64_t& out) const {
    out = key_.type == value_type::bytes ? *bytes_in(value_) : integer_in(value_)->magnitude;
  }
  void into(int64_t& out) const {
    const whole v = *integer_in(value_);
    out = v.negative ? -static_cast<int64_t>(v.magnitude) : static_cast<int64_t>(v.magnitude);
  }
  void into(double& out) const { out = key_.type == value_type::seconds ? *seconds_in(value_) : *number_in(value_); }
  void into(std::string& out) const { out = value_.text; }
  void into(std::filesystem::path& out) const {
    out = value_.text.empty() ? std::filesystem::path() : (folder_ / value_.text).lexically_normal();
  }
  void into(std::vector<std::string>& out) const {
    out.clear();
    if (value_.is_scalar()) out.push_back(value_.text);
    for (const node_ptr& item : value_.items) out.push_back(item->text);
  }
  void into(core::optimizer_type& out) const { out = *core::optimizer_type_from(value_.text); }
  void into(core::warmup_shape& out) const { out = *core::warmup_shape_from(value_.text); }
  void into(core::decay_shape& out) const { out = *core::decay_shape_from(value_.text); }
  void into(core::schedule_type& out) const { out = *core::schedule_type_from(value_.text); }
  void into(std::optional<core::dtype>& out) const { out = *core::float_dtype_from(value_.text); }
  template <class T>
  void into(std::optional<T>& out) const {
    into(out.emplace());
  }

 private:
  const key_info& key_;
  const node& value_;
  const std::filesystem::path& folder_;
};

class reader {
 public:
  /// Reads a field as text. An empty text stays empty for a required key of a list item, and becomes "none" for other
  /// keys without a default.
  explicit reader(const key_info& key)
      : key_(key), none_if_empty_(key.default_text == "none" && !(key.required && key.in_list())) {}

  [[nodiscard]] std::string of(const std::string& v) const {
    if (v.empty() && none_if_empty_) return "none";
    return key_.choices.names.empty() ? quoted(v) : v;
  }
  [[nodiscard]] std::string of(const std::filesystem::path& v) const {
    return v.empty() && key_.default_text != "\"\"" ? "none" : quoted(v.string());
  }
  [[nodiscard]] std::string of(const std::vector<std::string>& v) const {
    if (v.empty() && none_if_empty_) return "none";
    std::string out;
    for (const std::string& text : v) out += (out.empty() ? "" : ", ") + quoted(text);
    return "[" + out + "]";
  }
  [[nodiscard]] std::string of(const std::optional<core::dtype>& v) const {
    return v ? std::string(core::name_of(*v)) : "none";
  }
  [[nodiscard]] std::string of(core::optimizer_type v) const { return std::string(core::name_of(v)); }
  [[nodiscard]] std::string of(core::warmup_shape v) const { return std::string(core::name_of(v)); }
  [[nodiscard]] std::string of(core::decay_shape v) const { return std::string(core::name_of(v)); }
  [[nodiscard]] std::string of(core::schedule_type v) const {
    return v == core::schedule_type::constant ? "none" : std::string(core::name_of(v));
  }
  template <class T>
  [[nodiscard]] std::string of(const std::optional<T>& v) const {
    return v ? fmt::format("{}", *v) : "none";
  }
  template <class T>
  [[nodiscard]] std::string of(const T& v) const {
    return none_if_empty_ && v == T{} ? "none" : fmt::format("{}", v);
  }

 private:
  const key_info& key_;
  bool none_if_empty_;
};

}  // namespace

std::optional<std::string> store(const key_info& key, const node& value, const std::filesystem::path& folder,
                                 job_config& into, size_t item) {
  const writer write(key, value, folder);
  return std::visit(
      [&](const auto& f) -> std::optional<std::string> {
        using F = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<F, hand_made>)
          return f.set(into, value);
        else if constexpr (is_item_field<F>::value)
          write.into(*f(into, item));
        else if constexpr (!std::is_same_v<F, std::monostate> && !std::is_same_v<F, model_key>)
          write.into(*f(into));
        return std::nullopt;
      },
      key.target.field);
}

std::string field_text(const key_info& key, const job_config& from, size_t item) {
  // The accessors return references that are not const, because values are also stored through them; nothing is written
  // here.
  auto& config = const_cast<job_config&>(from);
  const reader text(key);
  return std::visit(
      [&](const auto& f) -> std::string {
        using F = std::decay_t<decltype(f)>;
        if constexpr (std::is_same_v<F, hand_made>)
          return f.get(config);
        else if constexpr (is_item_field<F>::value)
          return f(config, item) == nullptr ? key.default_text : text.of(*f(config, item));
        else if constexpr (!std::is_same_v<F, std::monostate> && !std::is_same_v<F, model_key>)
          return text.of(*f(config));
        else
          return key.default_text;
      },
      key.target.field);
}

bool was_told(const key_info& key, const job_config& from) {
  // Const_cast: the accessor requires a mutable config, but nothing is written.
  return *key.target.told(const_cast<job_config&>(from));
}

}  // namespace troupe::config
