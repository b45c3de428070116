#include "data/templates/tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/text.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/operators.hpp"

namespace troupe::data::templates {
namespace {

/// A test that compares, and the operator that it stands for.
struct comparison_name {
  std::string_view name, word;
};
constexpr std::array<comparison_name, 16> comparisons{{{"eq", "=="},
                                                       {"equalto", "=="},
                                                       {"==", "=="},
                                                       {"ne", "!="},
                                                       {"!=", "!="},
                                                       {"lt", "<"},
                                                       {"lessthan", "<"},
                                                       {"<", "<"},
                                                       {"le", "<="},
                                                       {"<=", "<="},
                                                       {"gt", ">"},
                                                       {"greaterthan", ">"},
                                                       {">", ">"},
                                                       {"ge", ">="},
                                                       {">=", ">="},
                                                       {"in", "in"}}};

constexpr std::array<std::string_view, 21> other_tests{
    "defined", "undefined", "none",        "boolean", "true",     "false",    "integer",
    "float",   "number",    "string",      "mapping", "sequence", "iterable", "callable",
    "odd",     "even",      "divisibleby", "lower",   "upper",    "sameas",   "escaped"};

const comparison_name* comparison_of(std::string_view name) {
  if (name.empty()) return nullptr;
  const auto* const at = std::ranges::find(comparisons, name, &comparison_name::name);
  return at == comparisons.end() ? nullptr : at;
}

bool is_iterable(const value& x) {
  return x.is<undefined_value>() || x.any_text() != nullptr || x.is<sequence_pointer>() || x.is<dictionary_pointer>() ||
         x.is<dictionary_view>() || x.is<number_range>() || x.is<lazy_pointer>() || x.is<std::shared_ptr<loop_state>>();
}

bool is_sequence(const value& x) {
  return x.is<undefined_value>() || x.any_text() != nullptr || x.is<sequence_pointer>() || x.is<dictionary_pointer>() ||
         x.is<number_range>();
}

bool is_callable(const value& x) {
  return x.is<undefined_value>() || x.is<std::shared_ptr<const macro_object>>() ||
         x.is<std::shared_ptr<loop_state>>() || x.is<std::shared_ptr<const bound_method>>() || x.is<global_function>();
}

/// Returns x % divisor == rest.
core::result<bool> has_rest(const value& x, const value& divisor, int64_t rest, allowance& left) {
  TROUPE_ASSIGN(const auto found, binary("%", x, divisor, left));
  return equal(found, whole(rest), left);
}

/// Returns str.islower() or str.isupper() of a text.
core::result<bool> is_cased(const value& x, bool wants_upper) {
  const auto* t = x.text();
  if (t == nullptr) return core::refused("tests of case for other values than texts are not supported");
  bool has_wanted = false, has_other = false;
  for (const char c : *t) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return core::refused("tests of case for a text beyond ASCII are not supported");
    const bool is_upper = c >= 'A' && c <= 'Z', is_lower = c >= 'a' && c <= 'z';
    has_wanted = has_wanted || (wants_upper ? is_upper : is_lower);
    has_other = has_other || (wants_upper ? is_lower : is_upper);
  }
  return has_wanted && !has_other;
}

core::result<bool> is_same(const value& x, const value& y) {
  const auto is_single = [](const value& v) { return v.is<bool>() || v.is<none_value>(); };
  if (!is_single(x) && !is_single(y))
    return core::refused("the test 'sameas' is supported for true, false and none only");
  if (x.holds.index() != y.holds.index()) return false;
  return x.is<none_value>() || *x.as<bool>() == *y.as<bool>();
}

/// Returns the result of a test without arguments; the name is one of other_tests.
core::result<bool> plain_test(std::string_view name, const value& x, allowance& left) {
  if (name == "defined") return !x.is<undefined_value>();
  if (name == "undefined") return x.is<undefined_value>();
  if (name == "none") return x.is<none_value>();
  if (name == "boolean") return x.is<bool>();
  if (name == "true" || name == "false") return x.is<bool>() && *x.as<bool>() == (name == "true");
  if (name == "integer") return x.is<int64_t>();
  if (name == "float") return x.is<double>();
  if (name == "number") return x.is<bool>() || x.is<int64_t>() || x.is<double>();
  if (name == "string") return x.any_text() != nullptr;
  if (name == "mapping") return x.is<dictionary_pointer>();
  if (name == "sequence") return is_sequence(x);
  if (name == "iterable") return is_iterable(x);
  if (name == "callable") return is_callable(x);
  if (name == "escaped") return x.is<marked_text>();
  if (name == "odd") return has_rest(x, whole(2), 1, left);
  if (name == "even") return has_rest(x, whole(2), 0, left);
  return is_cased(x, name == "upper");
}

}  // namespace

bool is_test(std::string_view name) {
  return comparison_of(name) != nullptr || std::ranges::find(other_tests, name) != other_tests.end();
}

core::result<bool> apply_test(std::string_view name, const value& x, call_arguments arguments, allowance& left) {
  TROUPE_TRY(left.take(1));
  const auto what = fmt::format("the test '{}'", core::shown(name));
  if (const auto* same = comparison_of(name)) {
    TROUPE_ASSIGN(const auto given, bound(what, std::move(arguments), {name == "in" ? "seq" : ""}, 1));
    return compared(same->word, x, given[0], left);
  }
  if (name == "divisibleby" || name == "sameas") {
    TROUPE_ASSIGN(const auto given, bound(what, std::move(arguments), {name == "sameas" ? "other" : "num"}, 1));
    return name == "sameas" ? is_same(x, given[0]) : has_rest(x, given[0], 0, left);
  }
  if (std::ranges::find(other_tests, name) == other_tests.end())
    return core::refused(fmt::format("{} is not supported", what));
  TROUPE_TRY(bound(what, std::move(arguments), {}, 0));
  return plain_test(name, x, left);
}

}  // namespace troupe::data::templates
