// Arguments of a call, and how they meet the parameters of a function, method, filter or test.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "data/templates/value.hpp"

namespace troupe::data::templates {

/// The arguments of one call.
struct call_arguments {
  values positional{};
  std::vector<std::pair<std::string, value>> named{};
};

/// The arguments of a call in the order of the parameters.
class bound_arguments {
 public:
  explicit bound_arguments(std::vector<std::optional<value>> all) : all_(std::move(all)) {}

  [[nodiscard]] bool has(size_t i) const { return all_[i].has_value(); }
  /// Returns argument `i`, which the call has to have.
  [[nodiscard]] const value& operator[](size_t i) const { return *all_[i]; }
  /// Returns argument `i`, or `otherwise` if the call does not have it.
  [[nodiscard]] value get(size_t i, value otherwise) const { return all_[i] ? *all_[i] : std::move(otherwise); }
  /// True if argument `i` is absent or None.
  [[nodiscard]] bool is_none(size_t i) const { return !all_[i] || all_[i]->is<none_value>(); }

 private:
  std::vector<std::optional<value>> all_;
};

/// Assigns arguments to the parameters `names`, of which the first `required` have no default. A parameter whose name
/// is empty takes no keyword. Fails, naming `what`, for arguments that do not fit.
core::result<bound_arguments> bound(std::string_view what, call_arguments arguments,
                                    std::initializer_list<std::string_view> names, size_t required);

/// Returns the text of an argument. Fails, naming `what`, for another type.
core::result<std::string> text_argument(std::string_view what, const value& x);
/// Returns the integer of an argument. Fails, naming `what`, for another type.
core::result<int64_t> integer_argument(std::string_view what, const value& x);

}  // namespace troupe::data::templates
