#include "data/templates/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/number.hpp"
#include "core/text.hpp"
#include "data/templates/printing.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

constexpr int64_t exact_in_double = int64_t{1} << 53;

tl::unexpected<core::error> not_for(std::string_view word, const value& x, const value& y) {
  for (const auto* one : {&x, &y})
    if (const auto* u = one->as<undefined_value>()) return core::refused(u->why);
  return core::refused(
      fmt::format("'{}' is not defined for values of types {} and {}", word, type_name(x), type_name(y)));
}

tl::unexpected<core::error> too_large(std::string_view word) {
  return core::refused(fmt::format("the result of '{}' is beyond 64 bits", word));
}

tl::unexpected<core::error> by_zero(std::string_view word) {
  return core::refused(fmt::format("'{}' divides by zero", word));
}

/// Returns a number as a double; nullopt for another value.
std::optional<double> real_of(const value& x) {
  if (const auto* d = x.as<double>()) return *d;
  if (const auto i = integer_of(x)) return static_cast<double>(*i);
  return std::nullopt;
}

int64_t floor_divided(int64_t x, int64_t y) {
  const int64_t out = x / y;
  return x % y != 0 && (x < 0) != (y < 0) ? out - 1 : out;
}

core::result<value> power(int64_t x, int64_t y) {
  if (y < 0) {
    if (x == 0) return by_zero("**");
    return real(std::pow(static_cast<double>(x), static_cast<double>(y)));
  }
  int64_t out = 1;
  if (x == 1 || (x == -1 && y % 2 == 0)) return whole(1);
  if (x == -1) return whole(-1);
  if (x == 0) return whole(y == 0 ? 1 : 0);
  for (; y > 0; --y)
    if (__builtin_mul_overflow(out, x, &out)) return too_large("**");
  return whole(out);
}

core::result<value> of_integers(std::string_view word, int64_t x, int64_t y) {
  int64_t out = 0;
  if (word == "+") {
    if (__builtin_add_overflow(x, y, &out)) return too_large(word);
    return whole(out);
  }
  if (word == "-") {
    if (__builtin_sub_overflow(x, y, &out)) return too_large(word);
    return whole(out);
  }
  if (word == "*") {
    if (__builtin_mul_overflow(x, y, &out)) return too_large(word);
    return whole(out);
  }
  if (word == "**") return power(x, y);
  if (y == 0) return by_zero(word);
  if (word == "/") {
    if (std::max(x, y) > exact_in_double || std::min(x, y) < -exact_in_double)
      return core::refused("dividing integers beyond 53 bits is not supported");
    return real(static_cast<double>(x) / static_cast<double>(y));
  }
  if (y == -1) {  // the smallest integer has no negative one
    if (word == "%") return whole(0);
    if (__builtin_sub_overflow(int64_t{0}, x, &out)) return too_large(word);
    return whole(out);
  }
  const int64_t quotient = floor_divided(x, y);
  return whole(word == "//" ? quotient : x - quotient * y);
}

/// Returns x // y or x % y in the steps of Python's float_divmod(), for y != 0.
double divided(bool wants_quotient, double x, double y) {
  double rest = std::fmod(x, y);
  double quotient = (x - rest) / y;
  if (rest != 0) {
    if ((y < 0) != (rest < 0)) {
      rest += y;
      quotient -= 1;
    }
  } else {
    rest = std::copysign(0.0, y);
  }
  if (!wants_quotient) return rest;
  if (quotient == 0) return std::copysign(0.0, x / y);
  const double below = std::floor(quotient);
  return quotient - below > 0.5 ? below + 1 : below;
}

core::result<value> of_reals(std::string_view word, double x, double y) {
  if (word == "+") return real(x + y);
  if (word == "-") return real(x - y);
  if (word == "*") return real(x * y);
  if (word == "**") {
    if (x == 0 && y < 0) return by_zero(word);
    if (x < 0 && std::isfinite(y) && std::floor(y) != y) return core::refused("a complex number is not supported");
    const double out = std::pow(x, y);
    if (std::isinf(out) && std::isfinite(x) && std::isfinite(y))
      return core::refused("the result of '**' is outside the range of a double");
    return real(out);
  }
  if (y == 0) return by_zero(word);
  if (word == "/") return real(x / y);
  return real(divided(word == "//", x, y));
}

core::result<value> repeated(const value& x, int64_t times, allowance& left) {
  const auto n = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (const auto* t = x.text()) {
    if (t->empty() || n == 0) return text("");
    if (n > largest_text / t->size()) TROUPE_TRY(left.take_text(largest_text + 1));
    TROUPE_TRY(left.take_text(n * t->size()));
    std::string out;
    out.reserve(n * t->size());
    for (size_t i = 0; i < n; ++i) out += *t;
    return text(std::move(out));
  }
  const auto& list = **x.as<sequence_pointer>();
  if (!list.items.empty() && n > most_items / list.items.size()) TROUPE_TRY(left.take_items(most_items + 1));
  values out;
  for (size_t i = 0; i < n && !list.items.empty(); ++i) out.insert(out.end(), list.items.begin(), list.items.end());
  return list_of(std::move(out), left, list.is_tuple);
}

core::result<value> joined(const value& x, const value& y, allowance& left) {
  if (const auto* t = x.text(); t != nullptr && y.text() != nullptr) {
    TROUPE_TRY(left.take_text(t->size() + y.text()->size()));
    return text(*t + *y.text());
  }
  const auto* a = x.as<sequence_pointer>();
  const auto* b = y.as<sequence_pointer>();
  if (a == nullptr || b == nullptr || (*a)->is_tuple != (*b)->is_tuple) return not_for("+", x, y);
  TROUPE_TRY(left.take_items((*a)->items.size() + (*b)->items.size()));
  values out = (*a)->items;
  out.insert(out.end(), (*b)->items.begin(), (*b)->items.end());
  return list_of(std::move(out), left, (*a)->is_tuple);
}

bool can_repeat(const value& x) { return x.is<text_pointer>() || x.is<sequence_pointer>(); }

/// One mark of a pattern: `%-08.3f`.
struct format_mark {
  bool is_left = false, has_plus = false, has_space = false, has_zeros = false;
  size_t width = 0;
  std::optional<int> precision{};
  char letter = ' ';
};

/// Removes a mark, after its %, from the front of a pattern.
core::result<format_mark> take_mark(std::string_view& pattern) {
  format_mark out;
  const auto refused = [] { return core::refused("this mark of a format is not supported"); };
  for (; !pattern.empty() && std::string_view("-+ 0").find(pattern[0]) != std::string_view::npos;
       pattern.remove_prefix(1)) {
    out.is_left = out.is_left || pattern[0] == '-';
    out.has_plus = out.has_plus || pattern[0] == '+';
    out.has_space = out.has_space || pattern[0] == ' ';
    out.has_zeros = out.has_zeros || pattern[0] == '0';
  }
  constexpr int widest = 1000;
  if (!pattern.empty() && pattern[0] >= '1' && pattern[0] <= '9') {
    const auto width = core::take_number<int>(pattern);
    if (!width || *width > widest) return refused();
    out.width = static_cast<size_t>(*width);
  }
  if (pattern.starts_with('.')) {
    pattern.remove_prefix(1);
    if (pattern.starts_with('-')) return refused();
    const auto precision = core::take_number<int>(pattern);
    if (precision && *precision > widest) return refused();
    out.precision = precision.value_or(0);
  }
  if (pattern.empty() || std::string_view("sdif%").find(pattern[0]) == std::string_view::npos) return refused();
  out.letter = pattern[0];
  pattern.remove_prefix(1);
  return out;
}

/// Returns the text of a number with its sign, without padding.
core::result<std::string> number_text(const format_mark& mark, const value& x) {
  std::string out;
  if (mark.letter == 'f') {
    const auto d = real_of(x);
    if (!d) return core::refused(fmt::format("the mark %f wants a number, got a value of type {}", type_name(x)));
    if (!std::isfinite(*d)) return core::refused("formatting a number that is not finite is not supported");
    out = core::text_of("%.*f", mark.precision.value_or(6), *d);
  } else {
    if (mark.precision) return core::refused("a precision of an integer is not supported");
    const auto i = integer_of(x);
    const auto* d = x.as<double>();
    if (!i && (d == nullptr || !(std::abs(*d) < 9e18)))
      return core::refused(fmt::format("the mark %d wants a number, got a value of type {}", type_name(x)));
    out = fmt::to_string(i ? *i : static_cast<int64_t>(*d));
  }
  if (!out.starts_with('-') && (mark.has_plus || mark.has_space)) out.insert(0, 1, mark.has_plus ? '+' : ' ');
  return out;
}

core::result<std::string> mark_text(const format_mark& mark, const value& x, allowance& left) {
  std::string out;
  if (mark.letter == 's') {
    TROUPE_ASSIGN(out, printed(x, left));
    if (mark.precision) out.resize(byte_of(out, static_cast<size_t>(*mark.precision)));
  } else {
    TROUPE_ASSIGN(out, number_text(mark, x));
  }
  const size_t length = code_points(out);
  if (length >= mark.width) return out;
  const size_t missing = mark.width - length;
  if (mark.is_left) return out.append(missing, ' ');
  if (!mark.has_zeros || mark.letter == 's') return std::string(missing, ' ') + out;
  const bool has_sign = out[0] == '-' || out[0] == '+' || out[0] == ' ';
  return out.insert(has_sign ? 1 : 0, missing, '0');
}

}  // namespace

core::result<value> formatted(std::string_view pattern, const values& arguments, allowance& left) {
  std::string out;
  size_t used = 0;
  while (!pattern.empty()) {
    const size_t at = pattern.find('%');
    out += pattern.substr(0, at);
    if (at == pattern.npos) break;
    pattern.remove_prefix(at + 1);
    if (pattern.starts_with('(')) return core::refused("a format with names is not supported");
    TROUPE_ASSIGN(const auto mark, take_mark(pattern));
    if (mark.letter == '%') {
      out += '%';
      continue;
    }
    if (used == arguments.size()) return core::refused("a format has more marks than arguments");
    TROUPE_ASSIGN(const auto part, mark_text(mark, arguments[used++], left));
    out += part;
    TROUPE_TRY(left.take_text(out.size()));
  }
  if (used < arguments.size()) return core::refused("a format has fewer marks than arguments");
  TROUPE_TRY(left.take_text(out.size()));
  return text(std::move(out));
}

core::result<value> binary(std::string_view word, const value& x, const value& y, allowance& left) {
  const auto i = integer_of(x), j = integer_of(y);
  if (i && j) return of_integers(word, *i, *j);
  if (word == "%" && x.text() != nullptr) {
    const auto* tuple = y.as<sequence_pointer>();
    if (y.is<dictionary_pointer>()) return core::refused("a format with a mapping is not supported");
    return formatted(*x.text(), tuple != nullptr && (*tuple)->is_tuple ? (*tuple)->items : values{y}, left);
  }
  const auto a = real_of(x), b = real_of(y);
  if (a && b) return of_reals(word, *a, *b);
  if (word == "+") return joined(x, y, left);
  if (word == "*" && can_repeat(x) && j) return repeated(x, *j, left);
  if (word == "*" && can_repeat(y) && i) return repeated(y, *i, left);
  return not_for(word, x, y);
}

core::result<value> with_sign(bool is_minus, const value& x) {
  if (const auto* d = x.as<double>()) return real(is_minus ? -*d : *d);
  const auto i = integer_of(x);
  if (!i) return not_for(is_minus ? "-" : "+", x, x);
  if (!is_minus) return whole(*i);
  if (*i == std::numeric_limits<int64_t>::min()) return too_large("-");
  return whole(-*i);
}

core::result<bool> contains(const value& in, const value& x, allowance& left) {
  if (const auto* t = in.text()) {
    if (x.text() == nullptr) return not_for("in", x, in);
    TROUPE_TRY(left.take(t->size() / 32 + 1));
    return t->find(*x.text()) != t->npos;
  }
  if (const auto* d = in.as<dictionary_pointer>()) {
    TROUPE_TRY(check_key(x));
    if (const auto* key = x.text()) return (*d)->find(*key) != nullptr;
  }
  if (const auto* v = in.as<dictionary_view>(); v != nullptr && v->shows == dictionary_view::part::keys)
    TROUPE_TRY(check_key(x));
  TROUPE_ASSIGN(const auto from, items_of(in, left));
  for (;;) {
    TROUPE_ASSIGN(const auto one, from.next());
    if (!one) return false;
    TROUPE_ASSIGN(const bool same, equal(*one, x, left));
    if (same) return true;
  }
}

core::result<bool> compared(std::string_view word, const value& x, const value& y, allowance& left) {
  if (word == "in" || word == "not in") {
    TROUPE_ASSIGN(const bool found, contains(y, x, left));
    return found == (word == "in");
  }
  if (word == "==" || word == "!=") {
    TROUPE_ASSIGN(const bool same, equal(x, y, left));
    return same == (word == "==");
  }
  for (const auto* one : {&x, &y})
    if (const auto* u = one->as<undefined_value>()) return core::refused(u->why);
  if (word == "<") return less(x, y, left);
  if (word == ">") return less(y, x, left);
  TROUPE_ASSIGN(const bool is_less, word == "<=" ? less(x, y, left) : less(y, x, left));
  if (is_less) return true;
  return equal(x, y, left);
}

}  // namespace troupe::data::templates
