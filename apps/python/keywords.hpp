// Reads keyword arguments of a Python function whose names depend on another argument. Converts each to its type, and
// refuses an unknown argument with the names of the known ones.
#pragma once

#include <fmt/format.h>
#include <nanobind/nanobind.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "apps/python/python_error.hpp"

namespace troupe::apps {

class keywords {
 public:
  /// Stores its arguments. `where` begins the messages: `convert(to='fp32')`.
  keywords(std::string where, nanobind::dict given) : where_(std::move(where)), given_(std::move(given)) {}

  /// Stores the argument `name` in `out` if the caller passed it and it is not None. `wanted` names its type in
  /// messages. False stands for a flag of the command line that is absent, so that it is not one of options(); a truth
  /// value for a number is refused.
  void take(const char* name, auto& out, std::string_view wanted) {
    known_.emplace_back(name);
    if (!given_.contains(name)) return;
    const nanobind::object value = given_[name];
    if (value.is_none()) return;
    constexpr bool is_flag = std::is_same_v<std::decay_t<decltype(out)>, bool>;
    const bool is_truth = PyBool_Check(value.ptr()) != 0;
    if (is_truth != is_flag || !nanobind::try_cast(value, out) || is_empty_text(out))
      refuse(fmt::format("{}: wanted {}, got {}", name, wanted, nanobind::repr(value).c_str()));
    if constexpr (is_flag)
      if (!out) return;
    options_.push_back(option_of(name));
  }
  template <class T>
  void take(const char* name, std::optional<T>& out, std::string_view wanted) {
    T value{};
    take(name, value, wanted);
    if (given_.contains(name) && !nanobind::object(given_[name]).is_none()) out = std::move(value);
  }

  /// Refuses the argument `name` if it was passed without the argument `other`.
  void needs(const std::string& name, const std::string& other) const {
    const auto is_given = [&](const std::string& n) {
      return std::ranges::find(options_, option_of(n)) != options_.end();
    };
    if (is_given(name) && !is_given(other)) refuse(fmt::format("{}: requires {}, which is not given", name, other));
  }

  /// Returns the options of the command line for which the passed arguments stand, such as `--max-shard-size`.
  [[nodiscard]] const std::vector<std::string>& options() const { return options_; }

  /// Refuses arguments for whose name take() was not called. Must follow the last call of take().
  void end() const {
    for (const auto& [name, value] : given_) {
      const auto text = nanobind::cast<std::string>(name);
      bool taken = false;
      for (const auto& known : known_) taken = taken || known == text;
      if (!taken) refuse(fmt::format("wanted options among {}, got {}", fmt::join(known_, ", "), text));
    }
  }

 private:
  static std::string option_of(std::string name) {
    std::ranges::replace(name, '_', '-');
    return "--" + name;
  }
  static bool is_empty_text(const auto& value) {
    if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::string>) return value.empty();
    return false;
  }
  [[noreturn]] void refuse(const std::string& why) const {
    throw python_error({core::error_kind::bad_input, where_ + ": " + why});
  }

  std::string where_;
  nanobind::dict given_;
  std::vector<std::string> known_, options_;
};

}  // namespace troupe::apps
