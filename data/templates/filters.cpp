#include "data/templates/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/templates/access.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/methods.hpp"
#include "data/templates/operators.hpp"
#include "data/templates/printing.hpp"
#include "data/templates/python_text.hpp"
#include "data/templates/tests.hpp"

namespace troupe::data::templates {
namespace {

using filter_function = core::result<value> (*)(const value&, call_arguments, allowance&);

/// Returns the value by which items are compared: at a path of the item, and in lower case if it is a text and `folds`.
core::result<value> key_of(const value& item, const value& path, bool folds, allowance& left) {
  TROUPE_ASSIGN(auto out, at_path(item, path, none(), left));
  if (!folds || out.text() == nullptr) return out;
  TROUPE_ASSIGN(auto lower, python_lower(*out.text()));
  return text(std::move(lower));
}

// Texts.

core::result<value> text_result(core::result<std::string> made, allowance& left) {
  TROUPE_ASSIGN(auto out, std::move(made));
  TROUPE_TRY(left.take_text(out.size()));
  return text(std::move(out));
}

core::result<value> filter_upper(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("upper", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  return text_result(python_upper(s), left);
}

core::result<value> filter_lower(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("lower", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  return text_result(python_lower(s), left);
}

core::result<value> filter_capitalize(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("capitalize", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  return text_result(python_capitalize(s), left);
}

/// Returns the text with a capital at the begin of each word, where words begin after spaces, hyphens and brackets.
core::result<value> filter_title(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("title", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  const auto is_between = [](uint32_t code) {
    return code == '-' || code == '(' || code == '{' || code == '[' || code == '<' || is_python_space(code);
  };
  std::string out;
  std::string_view rest = s;
  while (!rest.empty()) {
    size_t end = 0;
    const bool between = is_between(core::utf8_code(rest));
    while (end < rest.size() && is_between(core::utf8_code(rest.substr(end))) == between)
      end += std::max<size_t>(1, core::utf8_character(rest.substr(end)));
    const auto word = rest.substr(0, end);
    rest.remove_prefix(end);
    if (between) {
      out += word;
      continue;
    }
    const size_t first = byte_of(word, 1);
    TROUPE_ASSIGN(const auto capital, python_upper(word.substr(0, first)));
    TROUPE_ASSIGN(const auto others, python_lower(word.substr(first)));
    out.append(capital).append(others);
  }
  return text_result(std::move(out), left);
}

core::result<value> filter_trim(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("trim", std::move(arguments), {"chars"}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  if (given.is_none(0)) return text_result(std::string(python_strip(s)), left);
  TROUPE_ASSIGN(const auto chars, text_argument("trim", given[0]));
  return text_result(std::string(python_strip(s, chars)), left);
}

core::result<value> filter_replace(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("replace", std::move(arguments), {"old", "new", "count"}, 2));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  TROUPE_ASSIGN(const auto old, printed(given[0], left));
  TROUPE_ASSIGN(const auto with, printed(given[1], left));
  TROUPE_ASSIGN(const int64_t most,
                given.is_none(2) ? core::result<int64_t>(-1) : integer_argument("replace", given[2]));
  return replaced_text(s, old, with, most, left);
}

core::result<value> filter_safe(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("safe", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(auto out, printed(of, left));
  TROUPE_TRY(left.take_text(out.size()));
  return marked(std::move(out));
}

core::result<value> filter_string(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("string", std::move(arguments), {}, 0));
  if (of.is<marked_text>()) return of;
  return text_result(printed(of, left), left);
}

core::result<value> filter_indent(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("indent", std::move(arguments), {"width", "first", "blank"}, 0));
  TROUPE_ASSIGN(const auto s, text_argument("indent", of));
  std::string indent;
  const value width = given.get(0, whole(4));
  if (const auto* t = width.text()) {
    indent = *t;
  } else {
    TROUPE_ASSIGN(const int64_t n, integer_argument("indent", width));
    if (n > 10'000) return core::refused("indent by more than 10000 is not supported");
    indent.assign(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
  }
  const bool at_first = given.has(1) && truth(given[1]), at_blank = given.has(2) && truth(given[2]);
  const auto lines = python_lines(s + '\n', false);
  TROUPE_TRY(left.take_text(s.size() + lines.size() * indent.size()));
  std::string out = at_first ? indent : std::string();
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i > 0 && (at_blank || !lines[i].empty())) out += indent;
    out += lines[i];
  }
  return text_result(std::move(out), left);
}

core::result<value> filter_wordcount(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("wordcount", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto s, printed(of, left));
  int64_t out = 0;
  bool in_word = false;
  for (const char c : s) {
    if (static_cast<unsigned char>(c) >= 0x80)
      return core::refused("wordcount of a text beyond ASCII is not supported");
    const bool is_part = core::is_ascii_word(c) || c == '_';
    if (is_part && !in_word) ++out;
    in_word = is_part;
  }
  return whole(out);
}

core::result<value> filter_format(const value& of, call_arguments arguments, allowance& left) {
  if (!arguments.named.empty()) return core::refused("the filter 'format' with names is not supported");
  TROUPE_ASSIGN(const auto pattern, printed(of, left));
  return formatted(pattern, arguments.positional, left);
}

core::result<value> filter_tojson(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given,
                bound("tojson", std::move(arguments), {"ensure_ascii", "indent", "separators", "sort_keys"}, 0));
  json_style style;
  style.is_ascii = given.has(0) && truth(given[0]);
  if (!given.is_none(1)) {
    if (const auto* t = given[1].text()) {
      style.indent = *t;
    } else {
      TROUPE_ASSIGN(const int64_t n, integer_argument("the indent of tojson", given[1]));
      if (n > 100) return core::refused("an indent of more than 100 is not supported");
      style.indent = std::string(static_cast<size_t>(std::max<int64_t>(n, 0)), ' ');
    }
    style.between_items = std::string(1, ',');
  }
  if (!given.is_none(2)) {
    TROUPE_ASSIGN(const auto both, all_items_of(given[2], left));
    if (both.size() != 2) return core::refused("the separators of tojson are two texts");
    TROUPE_ASSIGN(style.between_items, text_argument("tojson", both[0]));
    TROUPE_ASSIGN(style.after_key, text_argument("tojson", both[1]));
  }
  style.sorts_keys = given.has(3) && truth(given[3]);
  return text_result(json_of(of, style, left), left);
}

// Numbers.

core::result<value> filter_int(const value& of, call_arguments arguments, allowance&) {
  TROUPE_ASSIGN(const auto given, bound("int", std::move(arguments), {"default", "base"}, 0));
  if (const auto* u = of.as<undefined_value>()) return core::refused(u->why);
  if (const auto i = integer_of(of)) return whole(*i);
  std::optional<double> number;
  if (const auto* t = of.text()) {
    if (given.has(1)) {
      TROUPE_ASSIGN(const int64_t base, integer_argument("the base of int", given[1]));
      if (base != 10) return core::refused("the filter 'int' with another base than 10 is not supported");
    }
    TROUPE_ASSIGN(const auto whole_number, python_int(*t));
    if (whole_number) return whole(*whole_number);
    TROUPE_ASSIGN(number, python_float_of(*t));
    if (number && !std::isfinite(*number)) number.reset();
  } else if (const auto* d = of.as<double>()) {
    if (std::isinf(*d)) return core::refused("infinity is no integer");
    if (!std::isnan(*d)) number = *d;
  }
  if (!number) return given.get(0, whole(0));
  if (!(std::abs(*number) < 9.2e18)) return core::refused("the filter 'int' of a number beyond 64 bits");
  return whole(static_cast<int64_t>(*number));
}

core::result<value> filter_float(const value& of, call_arguments arguments, allowance&) {
  TROUPE_ASSIGN(const auto given, bound("float", std::move(arguments), {"default"}, 0));
  if (const auto* u = of.as<undefined_value>()) return core::refused(u->why);
  if (const auto i = integer_of(of)) return real(static_cast<double>(*i));
  if (of.is<double>()) return of;
  if (const auto* t = of.text()) {
    TROUPE_ASSIGN(const auto number, python_float_of(*t));
    if (number) return real(*number);
  }
  return given.get(0, real(0));
}

core::result<value> filter_abs(const value& of, call_arguments arguments, allowance&) {
  TROUPE_TRY(bound("abs", std::move(arguments), {}, 0));
  if (const auto* d = of.as<double>()) return real(std::abs(*d));
  const auto i = integer_of(of);
  return i && *i >= 0 ? core::result<value>(whole(*i)) : with_sign(true, of);
}

core::result<value> filter_round(const value& of, call_arguments arguments, allowance&) {
  TROUPE_ASSIGN(const auto given, bound("round", std::move(arguments), {"precision", "method"}, 0));
  TROUPE_ASSIGN(const int64_t digits, integer_argument("round", given.get(0, whole(0))));
  TROUPE_ASSIGN(const auto method, text_argument("round", given.get(1, text("common"))));
  if (method != "common" && method != "ceil" && method != "floor")
    return core::refused("the method of round is common, ceil or floor");
  const auto i = integer_of(of);
  const auto* d = of.as<double>();
  if (!i && d == nullptr) return core::refused(fmt::format("round of a value of type {}", type_name(of)));
  if (digits < 0 || digits > 15) return core::refused("round to fewer than 0 or more than 15 digits is not supported");
  if (d != nullptr && !std::isfinite(*d)) return core::refused("round of a number that is not finite");
  if (method == "common") {
    if (i) return whole(*i);
    const auto rounded = core::number_of<double>(core::text_of("%.*f", static_cast<int>(digits), *d));
    return real(rounded.value_or(*d));
  }
  double scale = 1;
  for (int64_t n = 0; n < digits; ++n) scale *= 10;
  const double scaled = (i ? static_cast<double>(*i) : *d) * scale;
  if (!(std::abs(scaled) < 9007199254740992.0)) return core::refused("round of a number beyond 53 bits");
  const double moved = method == "ceil" ? std::ceil(scaled) : std::floor(scaled);
  return real((moved == 0 ? 0.0 : moved) / scale);
}

// Single items of a value, and figures of all.

core::result<value> filter_default(const value& of, call_arguments arguments, allowance&) {
  TROUPE_ASSIGN(const auto given, bound("default", std::move(arguments), {"default_value", "boolean"}, 0));
  const bool for_false = given.has(1) && truth(given[1]);
  if (of.is<undefined_value>() || (for_false && !truth(of))) return given.get(0, text(""));
  return of;
}

core::result<value> filter_length(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("length", std::move(arguments), {}, 0));
  if (const auto* l = of.as<std::shared_ptr<loop_state>>()) {
    if ((*l)->is_closed) return core::refused("reading 'loop' after its loop has ended is not supported");
    TROUPE_ASSIGN(const int64_t n, (*l)->count(left));
    return whole(n);
  }
  TROUPE_ASSIGN(const auto from, items_of(of, left));
  if (!from.length || of.is<lazy_pointer>())
    return core::refused(fmt::format("a value of type {} has no length", type_name(of)));
  return whole(static_cast<int64_t>(*from.length));
}

core::result<value> filter_first(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("first", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(const auto from, items_of(of, left));
  TROUPE_ASSIGN(auto one, from.next());
  return one ? *std::move(one) : undefined("no first item: the sequence is empty");
}

core::result<value> filter_last(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("last", std::move(arguments), {}, 0));
  if (of.is<lazy_pointer>()) return core::refused("the filter 'last' does not take items of 'map' and its like");
  TROUPE_ASSIGN(auto all, all_items_of(of, left));
  return all.empty() ? undefined("no last item: the sequence is empty") : std::move(all.back());
}

core::result<value> filter_list(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("list", std::move(arguments), {}, 0));
  TROUPE_ASSIGN(auto all, all_items_of(of, left));
  return list_of(std::move(all), left);
}

core::result<value> filter_join(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("join", std::move(arguments), {"d", "attribute"}, 0));
  TROUPE_ASSIGN(const auto separator, printed(given.get(0, text("")), left));
  TROUPE_ASSIGN(const auto from, items_of(of, left));
  std::string out;
  for (bool is_first = true;; is_first = false) {
    TROUPE_ASSIGN(auto one, from.next());
    if (!one) break;
    TROUPE_ASSIGN(const auto item, at_path(*std::move(one), given.get(1, none()), none(), left));
    TROUPE_ASSIGN(const auto part, printed(item, left));
    if (!is_first) out += separator;
    out += part;
    TROUPE_TRY(left.take(1));
    if (out.size() > largest_text) break;
  }
  return text_result(std::move(out), left);
}

core::result<value> filter_sum(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("sum", std::move(arguments), {"attribute", "start"}, 0));
  value out = given.get(1, whole(0));
  if (out.is<text_pointer>()) return core::refused("the filter 'sum' does not join texts");
  TROUPE_ASSIGN(const auto all, all_items_of(of, left));
  for (const auto& one : all) {
    TROUPE_ASSIGN(const auto item, at_path(one, given.get(0, none()), none(), left));
    TROUPE_ASSIGN(out, binary("+", out, item, left));
  }
  return out;
}

core::result<value> smallest_or_largest(bool wants_largest, const value& of, call_arguments arguments,
                                        allowance& left) {
  TROUPE_ASSIGN(const auto given,
                bound(wants_largest ? "max" : "min", std::move(arguments), {"case_sensitive", "attribute"}, 0));
  const bool folds = !given.has(0) || !truth(given[0]);
  TROUPE_ASSIGN(const auto all, all_items_of(of, left));
  if (all.empty()) return undefined("no item: the sequence is empty");
  size_t best = 0;
  TROUPE_ASSIGN(auto best_key, key_of(all[0], given.get(1, none()), folds, left));
  for (size_t i = 1; i < all.size(); ++i) {
    TROUPE_ASSIGN(auto key, key_of(all[i], given.get(1, none()), folds, left));
    TROUPE_ASSIGN(const bool is_better, compared(wants_largest ? ">" : "<", key, best_key, left));
    if (!is_better) continue;
    best = i;
    best_key = std::move(key);
  }
  return all[best];
}

core::result<value> filter_min(const value& of, call_arguments arguments, allowance& left) {
  return smallest_or_largest(false, of, std::move(arguments), left);
}
core::result<value> filter_max(const value& of, call_arguments arguments, allowance& left) {
  return smallest_or_largest(true, of, std::move(arguments), left);
}

// Orders.

/// Sorts the numbers of `keys` so that equal ones keep their order. Fails for keys without an order.
core::result<std::vector<size_t>> sorted(const values& keys, bool is_reverse, allowance& left) {
  std::vector<size_t> out(keys.size()), merged(keys.size());
  for (size_t i = 0; i < out.size(); ++i) out[i] = i;
  for (size_t width = 1; width < out.size(); width *= 2) {
    for (size_t begin = 0; begin < out.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, out.size()), end = std::min(begin + 2 * width, out.size());
      size_t i = begin, j = middle;
      for (size_t to = begin; to < end; ++to) {
        bool takes_second = i == middle;
        if (i < middle && j < end) {
          const value &first = keys[out[i]], &second = keys[out[j]];
          TROUPE_ASSIGN(takes_second,
                        is_reverse ? compared("<", first, second, left) : compared("<", second, first, left));
        }
        merged[to] = takes_second ? out[j++] : out[i++];
      }
    }
    out.swap(merged);
  }
  return out;
}

core::result<value> filter_sort(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("sort", std::move(arguments), {"reverse", "case_sensitive", "attribute"}, 0));
  const bool folds = !given.has(1) || !truth(given[1]);
  std::vector<value> paths{given.get(2, none())};
  if (const auto* t = paths[0].text()) {
    const auto parts = python_split(*t, ",", -1, false);
    paths.clear();
    for (const auto& part : parts) paths.push_back(text(part));
  }
  TROUPE_ASSIGN(const auto all, all_items_of(of, left));
  values keys;
  for (const auto& one : all) {
    values parts;
    for (const auto& path : paths) {
      TROUPE_ASSIGN(auto key, key_of(one, path, folds, left));
      parts.push_back(std::move(key));
    }
    TROUPE_ASSIGN(auto key, list_of(std::move(parts), left));
    keys.push_back(std::move(key));
  }
  TROUPE_ASSIGN(const auto order, sorted(keys, given.has(0) && truth(given[0]), left));
  values out;
  for (const size_t i : order) out.push_back(all[i]);
  return list_of(std::move(out), left);
}

core::result<value> filter_dictsort(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("dictsort", std::move(arguments), {"case_sensitive", "by", "reverse"}, 0));
  const auto* d = of.as<dictionary_pointer>();
  if (d == nullptr) return core::refused(fmt::format("dictsort of a value of type {}", type_name(of)));
  TROUPE_ASSIGN(const auto by, text_argument("dictsort", given.get(1, text("key"))));
  if (by != "key" && by != "value") return core::refused("dictsort sorts by 'key' or 'value'");
  const bool folds = !given.has(0) || !truth(given[0]);
  values keys;
  for (const auto& [key, one] : (*d)->entries) {
    TROUPE_ASSIGN(auto made, key_of(by == "key" ? key : one, none(), folds, left));
    keys.push_back(std::move(made));
  }
  TROUPE_ASSIGN(const auto order, sorted(keys, given.has(2) && truth(given[2]), left));
  values out;
  for (const size_t i : order) {
    const auto& [key, one] = (*d)->entries[i];
    TROUPE_ASSIGN(auto pair, list_of({key, one}, left, true));
    out.push_back(std::move(pair));
  }
  return list_of(std::move(out), left);
}

core::result<value> filter_reverse(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("reverse", std::move(arguments), {}, 0));
  if (const auto* t = of.text()) {
    std::string out;
    for (std::string_view rest = *t; !rest.empty();) {
      const size_t begin = core::utf8_begin_before(rest, rest.size());
      out += rest.substr(begin);
      rest.remove_suffix(rest.size() - begin);
    }
    return text_result(std::move(out), left);
  }
  TROUPE_ASSIGN(auto all, all_items_of(of, left));
  std::ranges::reverse(all);
  if (of.is<lazy_pointer>()) return list_of(std::move(all), left);
  TROUPE_ASSIGN(const auto list, list_of(std::move(all), left));
  TROUPE_ASSIGN(const auto from, items_of(list, left));
  return lazy_of(from.next, depth_of(list));
}

// Items that are made when they are asked for.

/// Makes each item of `of` by `make`, which returns nullopt for an item that is left out.
template <class Make>
core::result<value> each_item(const value& of, allowance& left, Make make) {
  const uint32_t depth = depth_of(of);
  // Python asks for the items of the value when the first one is needed.
  auto from = std::make_shared<std::optional<cursor>>();
  return lazy_of(
      [of, from, make = std::move(make), &left]() mutable -> core::result<std::optional<value>> {
        if (!*from) {
          TROUPE_ASSIGN(*from, truth(of) ? items_of(of, left) : items_of(undefined(""), left));
        }
        for (;;) {
          TROUPE_TRY(left.take(1));
          TROUPE_ASSIGN(auto one, (*from)->next());
          if (!one) return std::optional<value>();
          TROUPE_ASSIGN(auto made, make(*std::move(one)));
          if (made) return made;
        }
      },
      depth);
}

core::result<value> filter_map(const value& of, call_arguments arguments, allowance& left) {
  if (arguments.positional.empty()) {
    value path, otherwise = none();
    bool has_path = false;
    for (auto& [name, x] : arguments.named) {
      if (name != "attribute" && name != "default")
        return core::refused(fmt::format("the filter 'map' has no argument '{}'", core::shown(name)));
      has_path = has_path || name == "attribute";
      (name == "attribute" ? path : otherwise) = std::move(x);
    }
    if (!has_path) return core::refused("the filter 'map' needs a filter or an attribute");
    return each_item(of, left, [path, otherwise, &left](value item) -> core::result<std::optional<value>> {
      TROUPE_ASSIGN(auto out, at_path(std::move(item), path, otherwise, left));
      return std::optional<value>(std::move(out));
    });
  }
  TROUPE_ASSIGN(const auto name, text_argument("map", arguments.positional[0]));
  if (!is_filter(name)) return core::refused(fmt::format("the filter '{}' is not supported", core::shown(name)));
  arguments.positional.erase(arguments.positional.begin());
  return each_item(of, left, [name, arguments, &left](const value& item) -> core::result<std::optional<value>> {
    TROUPE_ASSIGN(auto out, apply_filter(name, item, arguments, left));
    return std::optional<value>(std::move(out));
  });
}

/// Leaves out the items, or those with an attribute, for which a test fails (or holds, for `reject`).
core::result<value> chosen(bool wants_true, bool by_attribute, const value& of, call_arguments arguments,
                           allowance& left) {
  value path = none();
  if (by_attribute) {
    if (arguments.positional.empty()) return core::refused("the name of an attribute is missing");
    path = std::move(arguments.positional[0]);
    arguments.positional.erase(arguments.positional.begin());
  }
  std::string test;
  if (!arguments.positional.empty()) {
    TROUPE_ASSIGN(test, text_argument("the name of a test", arguments.positional[0]));
    if (!is_test(test)) return core::refused(fmt::format("the test '{}' is not supported", core::shown(test)));
    arguments.positional.erase(arguments.positional.begin());
  }
  return each_item(of, left,
                   [=, arguments = std::move(arguments), &left](value item) -> core::result<std::optional<value>> {
                     TROUPE_ASSIGN(const auto tested, at_path(item, path, none(), left));
                     bool holds = truth(tested);
                     if (!test.empty()) {
                       TROUPE_ASSIGN(holds, apply_test(test, tested, arguments, left));
                     }
                     return holds == wants_true ? std::optional<value>(std::move(item)) : std::optional<value>();
                   });
}

core::result<value> filter_select(const value& of, call_arguments arguments, allowance& left) {
  return chosen(true, false, of, std::move(arguments), left);
}
core::result<value> filter_reject(const value& of, call_arguments arguments, allowance& left) {
  return chosen(false, false, of, std::move(arguments), left);
}
core::result<value> filter_selectattr(const value& of, call_arguments arguments, allowance& left) {
  return chosen(true, true, of, std::move(arguments), left);
}
core::result<value> filter_rejectattr(const value& of, call_arguments arguments, allowance& left) {
  return chosen(false, true, of, std::move(arguments), left);
}

core::result<value> filter_unique(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("unique", std::move(arguments), {"case_sensitive", "attribute"}, 0));
  const bool folds = !given.has(0) || !truth(given[0]);
  if (!truth(of)) TROUPE_TRY(items_of(of, left));
  return each_item(of, left,
                   [folds, path = given.get(1, none()), seen = values(),
                    &left](value item) mutable -> core::result<std::optional<value>> {
                     TROUPE_ASSIGN(auto key, key_of(item, path, folds, left));
                     TROUPE_TRY(check_key(key));
                     for (const auto& before : seen) {
                       TROUPE_ASSIGN(const bool same, equal(before, key, left));
                       if (same) return std::optional<value>();
                     }
                     seen.push_back(std::move(key));
                     return std::optional<value>(std::move(item));
                   });
}

core::result<value> filter_items(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(bound("items", std::move(arguments), {}, 0));
  if (of.is<undefined_value>())
    return each_item(of, left, [](value item) -> core::result<std::optional<value>> {
      return std::optional<value>(std::move(item));
    });
  const auto* d = of.as<dictionary_pointer>();
  if (d == nullptr) return core::refused(fmt::format("the filter 'items' of a value of type {}", type_name(of)));
  TROUPE_ASSIGN(const auto from, items_of(value{dictionary_view{*d, dictionary_view::part::items}}, left));
  return lazy_of(from.next, depth_of(of) + 1);
}

/// Returns lists of `size` items each, the last one filled up.
core::result<value> filter_batch(const value& of, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("batch", std::move(arguments), {"linecount", "fill_with"}, 1));
  TROUPE_ASSIGN(const int64_t size, integer_argument("batch", given[0]));
  if (size < 1) return core::refused("batch wants a positive number");
  TROUPE_ASSIGN(const auto all, all_items_of(of, left));
  values lists;
  for (size_t i = 0; i < all.size();) {
    values part;
    for (; i < all.size() && part.size() < static_cast<size_t>(size); ++i) part.push_back(all[i]);
    if (!given.is_none(1)) {
      TROUPE_TRY(left.take_items(static_cast<size_t>(size)));
      part.resize(static_cast<size_t>(size), given[1]);
    }
    TROUPE_ASSIGN(auto list, list_of(std::move(part), left));
    lists.push_back(std::move(list));
  }
  TROUPE_ASSIGN(const auto made, list_of(std::move(lists), left));
  TROUPE_ASSIGN(const auto from, items_of(made, left));
  return lazy_of(from.next, depth_of(made));
}

struct named_filter {
  std::string_view name;
  filter_function apply;
};

constexpr std::array<named_filter, 38> filters{{{"abs", filter_abs},
                                                {"batch", filter_batch},
                                                {"capitalize", filter_capitalize},
                                                {"count", filter_length},
                                                {"d", filter_default},
                                                {"default", filter_default},
                                                {"dictsort", filter_dictsort},
                                                {"first", filter_first},
                                                {"float", filter_float},
                                                {"format", filter_format},
                                                {"indent", filter_indent},
                                                {"int", filter_int},
                                                {"items", filter_items},
                                                {"join", filter_join},
                                                {"last", filter_last},
                                                {"length", filter_length},
                                                {"list", filter_list},
                                                {"lower", filter_lower},
                                                {"map", filter_map},
                                                {"max", filter_max},
                                                {"min", filter_min},
                                                {"reject", filter_reject},
                                                {"rejectattr", filter_rejectattr},
                                                {"replace", filter_replace},
                                                {"reverse", filter_reverse},
                                                {"round", filter_round},
                                                {"safe", filter_safe},
                                                {"select", filter_select},
                                                {"selectattr", filter_selectattr},
                                                {"sort", filter_sort},
                                                {"string", filter_string},
                                                {"sum", filter_sum},
                                                {"title", filter_title},
                                                {"tojson", filter_tojson},
                                                {"trim", filter_trim},
                                                {"unique", filter_unique},
                                                {"upper", filter_upper},
                                                {"wordcount", filter_wordcount}}};

/// Filters of a marked text. The others return a marked text again, which is not supported, or want another type.
constexpr std::array<std::string_view, 5> filters_of_marked_texts{"d", "default", "replace", "safe", "string"};

const named_filter* filter_named(std::string_view name) {
  const auto* const at = std::ranges::find(filters, name, &named_filter::name);
  return at == filters.end() ? nullptr : at;
}

}  // namespace

bool is_filter(std::string_view name) { return filter_named(name) != nullptr; }

core::result<value> apply_filter(std::string_view name, const value& of, call_arguments arguments, allowance& left) {
  TROUPE_TRY(left.take(1));
  const auto* filter = filter_named(name);
  if (filter == nullptr) return core::refused(fmt::format("the filter '{}' is not supported", core::shown(name)));
  if (of.is<marked_text>() && std::ranges::find(filters_of_marked_texts, name) == filters_of_marked_texts.end())
    return core::refused(fmt::format("the filter '{}' of a text after the filter 'safe' is not supported", name));
  return filter->apply(of, std::move(arguments), left);
}

}  // namespace troupe::data::templates
