// Values of templates, which are those of Python as far as templates meet them: what they are, whether they are true,
// equal or ordered. Lists and mappings never change after they are made, as in Jinja's immutable sandbox; a namespace
// is the one object that does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/error.hpp"
#include "data/templates/allowance.hpp"

namespace troupe::data::templates {

struct value;
struct sequence;
struct dictionary;
struct lazy_items;
struct name_space;
struct macro_object;
struct loop_state;
struct bound_method;

/// A name or an attribute without a value. Most uses of it fail with the sentence `why`.
struct undefined_value {
  std::string why;
};

/// Python's None.
struct none_value {};

/// The numbers from `start` to before `stop` in steps of `step`, which is not 0.
struct number_range {
  int64_t start = 0, stop = 0, step = 1;
};

/// The keys, values or items of a mapping, as Python's methods of these names return them.
struct dictionary_view {
  enum class part : uint8_t { keys, values, items };
  std::shared_ptr<const dictionary> of;
  part shows = part::keys;
};

/// A function that every template has, such as `range`. The name is static.
struct global_function {
  std::string_view name;
};

using text_pointer = std::shared_ptr<const std::string>;

/// A text that the filter `safe` has marked (Python's Markup). Where Jinja would put HTML's escapes into the other
/// operand, or a method would return such a text again, it is refused.
struct marked_text {
  text_pointer of;
};

using sequence_pointer = std::shared_ptr<const sequence>;
using dictionary_pointer = std::shared_ptr<const dictionary>;
using lazy_pointer = std::shared_ptr<lazy_items>;

/// One value. A text is valid UTF-8. Copies share texts, lists and mappings.
struct value {
  std::variant<undefined_value, none_value, bool, int64_t, double, text_pointer, marked_text, sequence_pointer,
               dictionary_pointer, number_range, dictionary_view, lazy_pointer, std::shared_ptr<name_space>,
               std::shared_ptr<const macro_object>, std::shared_ptr<loop_state>, std::shared_ptr<const bound_method>,
               global_function>
      holds;

  template <class T>
  [[nodiscard]] const T* as() const {
    return std::get_if<T>(&holds);
  }
  template <class T>
  [[nodiscard]] bool is() const {
    return std::holds_alternative<T>(holds);
  }
  /// Returns the text; nullptr if the value is none, or is a marked one.
  [[nodiscard]] const std::string* text() const {
    const auto* t = as<text_pointer>();
    return t == nullptr ? nullptr : t->get();
  }
  /// Returns the text, which may be marked; nullptr if the value is none.
  [[nodiscard]] const std::string* any_text() const {
    const auto* t = as<marked_text>();
    return t == nullptr ? text() : t->of.get();
  }
};

using values = std::vector<value>;

/// A list, a tuple, or one of the pairs that `groupby` would make.
struct sequence {
  values items{};
  bool is_tuple = false;
  uint32_t depth = 1;  ///< 1 plus the depth of the deepest item
};

/// A mapping in the order of its keys' first use.
struct dictionary {
  std::vector<std::pair<value, value>> entries{};
  uint32_t depth = 1;

  /// Returns the value under a text; nullptr if there is none.
  [[nodiscard]] const value* find(std::string_view key) const;
};

/// Items that are made when they are asked for, once, as by Python's generators.
struct lazy_items {
  std::function<core::result<std::optional<value>>()> next{};
  uint32_t depth = 1;
};

/// The object of `namespace()`.
struct name_space {
  std::map<std::string, value, std::less<>> attributes{};
};

/// A method of a value, which has not been called yet.
struct bound_method {
  value self{};
  std::string name{};
};

inline value none() { return {none_value{}}; }
inline value boolean(bool x) { return {x}; }
inline value whole(int64_t x) { return {x}; }
inline value real(double x) { return {x}; }
inline value text(std::string x) { return {std::make_shared<const std::string>(std::move(x))}; }
inline value marked(std::string x) { return {marked_text{std::make_shared<const std::string>(std::move(x))}}; }
inline value undefined(std::string why) { return {undefined_value{std::move(why)}}; }

/// Returns how deep lists and mappings are nested in a value; 0 for a plain one.
uint32_t depth_of(const value& x);

/// Returns a list, or a tuple. Fails if it is too long or too deep.
core::result<value> list_of(values items, allowance& left, bool is_tuple = false);
/// Returns a mapping of these entries. A later entry of an equal key replaces the value of the earlier one. Fails if a
/// key is a list or mapping, and if the mapping is too large or too deep.
core::result<value> dictionary_of(std::vector<std::pair<value, value>> entries, allowance& left);
/// Returns items that `next` makes from a value, or values, of depth `depth`. Fails if that is too deep.
core::result<value> lazy_of(std::function<core::result<std::optional<value>>()> next, uint32_t depth);

/// Returns the value of a JSON text. Fails for a number that is beyond 64 bits, where JSON for nlohmann::json no longer
/// says whether it is an integer, and for values that are nested too deep.
core::result<value> value_of(const nlohmann::ordered_json& json, uint32_t depth = 0);

/// Returns Python's name of the value's type.
std::string_view type_name(const value& x);

/// True if an `if` takes the value for true.
bool truth(const value& x);
/// Returns the value as an integer, if it is one or a boolean.
std::optional<int64_t> integer_of(const value& x);
/// Returns the number of items of a range.
int64_t range_length(const number_range& r);
/// Returns item `at` of a range, which has it.
int64_t range_item(const number_range& r, int64_t at);

/// Returns x == y.
core::result<bool> equal(const value& x, const value& y, allowance& left);
/// Returns x < y. Fails for types that Python does not order.
core::result<bool> less(const value& x, const value& y, allowance& left);
/// Fails for values that cannot be keys of a mapping.
core::result<void> check_key(const value& x);

/// Returns items one after the other.
struct cursor {
  std::function<core::result<std::optional<value>>()> next;
  std::optional<size_t> length{};  ///< the number of all items, if that is known without making them
};

/// Returns the items of a value as a `for` does. Fails for values that have none.
core::result<cursor> items_of(const value& x, allowance& left);
/// Returns all items of a value.
core::result<values> all_items_of(const value& x, allowance& left);

}  // namespace troupe::data::templates
