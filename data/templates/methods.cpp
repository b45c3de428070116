#include "data/templates/methods.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "data/templates/access.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/printing.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

constexpr std::array<std::string_view, 32> text_methods{
    "capitalize",   "count",        "endswith",   "find",    "format", "index",      "isalnum", "isalpha",
    "isdigit",      "islower",      "isspace",    "isupper", "join",   "lower",      "lstrip",  "partition",
    "removeprefix", "removesuffix", "replace",    "rfind",   "rindex", "rpartition", "rsplit",  "rstrip",
    "split",        "splitlines",   "startswith", "strip",   "title",  "upper",      "zfill",   "isascii"};
constexpr std::array<std::string_view, 15> refused_text_methods{
    "casefold",    "center",  "encode", "expandtabs", "format_map", "isdecimal", "isidentifier", "isnumeric",
    "isprintable", "istitle", "ljust",  "maketrans",  "rjust",      "swapcase",  "translate"};
constexpr std::array<std::string_view, 5> mapping_methods{"items", "keys", "values", "get", "copy"};
constexpr std::array<std::string_view, 5> unsafe_mapping_methods{"clear", "pop", "popitem", "setdefault", "update"};
constexpr std::array<std::string_view, 8> unsafe_list_methods{"append", "clear", "pop",    "reverse",
                                                              "insert", "sort",  "extend", "remove"};
constexpr std::array<std::string_view, 11> number_attributes{
    "as_integer_ratio", "bit_count", "bit_length", "conjugate", "denominator", "from_bytes", "imag",
    "numerator",        "real",      "to_bytes",   "is_integer"};
constexpr std::array<std::string_view, 7> other_attributes{"start", "stop",    "step",      "count",
                                                           "index", "mapping", "isdisjoint"};

bool is_in(const auto& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

core::result<value> list_of_texts(std::vector<std::string> parts, allowance& left, bool is_tuple = false) {
  values out;
  out.reserve(parts.size());
  for (auto& part : parts) out.push_back(text(std::move(part)));
  return list_of(std::move(out), left, is_tuple);
}

core::result<value> counted_text(core::result<std::string> made, allowance& left) {
  TROUPE_ASSIGN(auto out, std::move(made));
  TROUPE_TRY(left.take_text(out.size()));
  return text(std::move(out));
}

/// Returns the bytes of a text between two optional indices, as Python's slices have them, and the number of characters
/// before them.
struct text_part {
  std::string_view text;
  size_t skipped = 0;
};
core::result<text_part> part_of(std::string_view whole_text, const bound_arguments& given, size_t first,
                                std::string_view what) {
  const auto length = static_cast<int64_t>(code_points(whole_text));
  const auto index = [&](size_t i, int64_t otherwise) -> core::result<int64_t> {
    if (given.is_none(i)) return otherwise;
    TROUPE_ASSIGN(const int64_t x, integer_argument(what, given[i]));
    return std::clamp<int64_t>(x < 0 ? x + length : x, 0, length);
  };
  TROUPE_ASSIGN(const int64_t begin, index(first, 0));
  TROUPE_ASSIGN(const int64_t end, index(first + 1, length));
  const size_t from = byte_of(whole_text, static_cast<size_t>(begin));
  const size_t to = std::max(from, byte_of(whole_text, static_cast<size_t>(std::max(begin, end))));
  return text_part{whole_text.substr(from, to - from), static_cast<size_t>(begin)};
}

core::result<value> starts_or_ends(const std::string& self, std::string_view name, call_arguments arguments) {
  const bool at_begin = name == "startswith";
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"", "", ""}, 1));
  TROUPE_ASSIGN(const auto part, part_of(self, given, 1, name));
  const auto fits = [&](std::string_view x) { return at_begin ? part.text.starts_with(x) : part.text.ends_with(x); };
  if (given.has(1) || given.has(2)) {
    if (given[0].text() == nullptr || given[0].text()->empty())
      return core::refused(fmt::format("{} with these arguments is not supported", name));
  }
  if (const auto* t = given[0].text()) return boolean(fits(*t));
  const auto* tuple = given[0].as<sequence_pointer>();
  if (tuple == nullptr || !(*tuple)->is_tuple)
    return core::refused(fmt::format("{} wants a text or a tuple of texts", name));
  bool found = false;
  for (const auto& one : (*tuple)->items) {
    TROUPE_ASSIGN(const auto t, text_argument(name, one));
    found = found || fits(t);
  }
  return boolean(found);
}

core::result<value> found_at(const std::string& self, std::string_view name, call_arguments arguments) {
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"", "", ""}, 1));
  TROUPE_ASSIGN(const auto what, text_argument(name, given[0]));
  if (what.empty() && (given.has(1) || given.has(2)))
    return core::refused(fmt::format("{} of an empty text is not supported", name));
  TROUPE_ASSIGN(const auto part, part_of(self, given, 1, name));
  if (name == "count") {
    if (what.empty()) return whole(static_cast<int64_t>(code_points(part.text)) + 1);
    int64_t out = 0;
    for (size_t at = part.text.find(what); at != part.text.npos; at = part.text.find(what, at + what.size())) ++out;
    return whole(out);
  }
  const size_t at = name.starts_with('r') ? part.text.rfind(what) : part.text.find(what);
  if (at != part.text.npos) return whole(static_cast<int64_t>(part.skipped + code_points(part.text.substr(0, at))));
  if (name.ends_with("find")) return whole(-1);
  return core::refused(fmt::format("{} did not find '{}'", name, core::shown(what)));
}

core::result<value> stripped(const std::string& self, std::string_view name, call_arguments arguments,
                             allowance& left) {
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {""}, 0));
  std::optional<std::string> chars;
  if (!given.is_none(0)) {
    TROUPE_ASSIGN(chars, text_argument(name, given[0]));
  }
  TROUPE_TRY(left.take(self.size() / 32 + 1));
  const auto set = chars ? std::optional<std::string_view>(*chars) : std::nullopt;
  return counted_text(std::string(python_strip(self, set, name != "rstrip", name != "lstrip")), left);
}

core::result<value> split(const std::string& self, std::string_view name, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"sep", "maxsplit"}, 0));
  TROUPE_ASSIGN(const int64_t most, integer_argument(name, given.get(1, whole(-1))));
  TROUPE_TRY(left.take_text(self.size()));
  if (given.is_none(0)) return list_of_texts(python_split(self, most, name == "rsplit"), left);
  TROUPE_ASSIGN(const auto separator, text_argument(name, given[0]));
  if (separator.empty()) return core::refused(fmt::format("{} wants a separator that is not empty", name));
  return list_of_texts(python_split(self, separator, most, name == "rsplit"), left);
}

core::result<value> partitioned(const std::string& self, std::string_view name, call_arguments arguments,
                                allowance& left) {
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {""}, 1));
  TROUPE_ASSIGN(const auto separator, text_argument(name, given[0]));
  if (separator.empty()) return core::refused(fmt::format("{} wants a separator that is not empty", name));
  const bool from_end = name == "rpartition";
  const size_t at = from_end ? self.rfind(separator) : self.find(separator);
  if (at == self.npos) {
    if (from_end) return list_of_texts({"", "", self}, left, true);
    return list_of_texts({self, "", ""}, left, true);
  }
  return list_of_texts({self.substr(0, at), separator, self.substr(at + separator.size())}, left, true);
}

core::result<value> replaced(const std::string& self, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("replace", std::move(arguments), {"", "", ""}, 2));
  TROUPE_ASSIGN(const auto old, text_argument("replace", given[0]));
  TROUPE_ASSIGN(const auto with, text_argument("replace", given[1]));
  TROUPE_ASSIGN(const int64_t most, integer_argument("replace", given.get(2, whole(-1))));
  return replaced_text(self, old, with, most, left);
}

core::result<value> joined_items(const std::string& self, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("join", std::move(arguments), {""}, 1));
  TROUPE_ASSIGN(const auto items, all_items_of(given[0], left));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) out += self;
    TROUPE_ASSIGN(const auto part, text_argument("join", items[i]));
    out += part;
    if (out.size() > largest_text) break;
  }
  return counted_text(std::move(out), left);
}

/// Answers isalpha() and its like for texts of ASCII.
core::result<value> are_all(const std::string& self, std::string_view name) {
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  const bool is_plain = std::ranges::all_of(self, is_ascii);
  if (name == "isascii") return boolean(is_plain);
  if (name == "isspace") return boolean(!self.empty() && python_strip(self).empty());
  if (!is_plain) return core::refused(fmt::format("{} of a text beyond ASCII is not supported", name));
  const auto is_upper = [](char c) { return c >= 'A' && c <= 'Z'; };
  const auto is_lower = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_letter = [&](char c) { return is_upper(c) || is_lower(c); };
  if (name == "isupper") return boolean(std::ranges::any_of(self, is_upper) && std::ranges::none_of(self, is_lower));
  if (name == "islower") return boolean(std::ranges::any_of(self, is_lower) && std::ranges::none_of(self, is_upper));
  if (self.empty()) return boolean(false);
  if (name == "isdigit") return boolean(std::ranges::all_of(self, is_digit));
  if (name == "isalpha") return boolean(std::ranges::all_of(self, is_letter));
  return boolean(std::ranges::all_of(self, [&](char c) { return is_digit(c) || is_letter(c); }));
}

/// Returns the text with a capital at the begin of each run of letters, as str.title() makes it.
core::result<value> titled(const std::string& self, allowance& left) {
  std::string out;
  bool follows_letter = false;
  for (const char c : self) {
    if (static_cast<unsigned char>(c) >= 0x80) return core::refused("title of a text beyond ASCII is not supported");
    const char lower = core::ascii_lower(c);
    const bool is_letter = lower >= 'a' && lower <= 'z';
    out += is_letter && !follows_letter ? static_cast<char>(lower - 'a' + 'A') : lower;
    follows_letter = is_letter;
  }
  return counted_text(std::move(out), left);
}

core::result<value> filled(const std::string& self, call_arguments arguments, allowance& left) {
  TROUPE_ASSIGN(const auto given, bound("zfill", std::move(arguments), {""}, 1));
  TROUPE_ASSIGN(const int64_t width, integer_argument("zfill", given[0]));
  const auto length = static_cast<int64_t>(code_points(self));
  if (width <= length) return text(self);
  TROUPE_TRY(left.take_text(static_cast<size_t>(std::min<int64_t>(width, int64_t{1} << 40)) + self.size()));
  std::string out = self;
  const bool has_sign = !out.empty() && (out[0] == '-' || out[0] == '+');
  out.insert(has_sign ? 1 : 0, static_cast<size_t>(width - length), '0');
  return text(std::move(out));
}

/// Returns the text with `{}`, `{0}` and `{name}` replaced by arguments.
core::result<value> format_text(std::string_view pattern, const call_arguments& arguments, allowance& left) {
  const auto no_field = [](std::string_view field) {
    return core::refused(fmt::format("the field '{{{}}}' of a format is not supported", core::shown(field)));
  };
  std::string out;
  size_t next = 0;
  bool has_automatic = false, has_numbers = false;
  while (!pattern.empty()) {
    const size_t at = pattern.find_first_of("{}");
    out += pattern.substr(0, at);
    if (at == pattern.npos) break;
    pattern.remove_prefix(at);
    if (pattern.starts_with("{{") || pattern.starts_with("}}")) {
      out += pattern[0];
      pattern.remove_prefix(2);
      continue;
    }
    const size_t end = pattern.find('}');
    if (pattern[0] == '}' || end == pattern.npos) return core::refused("a format has a brace without its other one");
    const auto field = pattern.substr(1, end - 1);
    pattern.remove_prefix(end + 1);
    if (!std::ranges::all_of(field, [](char c) { return core::is_ascii_word(c) || c == '_'; })) return no_field(field);
    const value* found = nullptr;
    if (field.empty() || (field[0] >= '0' && field[0] <= '9')) {
      const auto number = field.empty() ? std::optional<size_t>(next++) : core::number_of<size_t>(field);
      (field.empty() ? has_automatic : has_numbers) = true;
      if (!number) return no_field(field);
      if (*number < arguments.positional.size()) found = &arguments.positional[*number];
    } else {
      for (const auto& [name, x] : arguments.named)
        if (name == field) found = &x;
    }
    if (found == nullptr) return core::refused(fmt::format("a format has no argument '{}'", core::shown(field)));
    TROUPE_ASSIGN(const auto part, printed(*found, left));
    out += part;
    TROUPE_TRY(left.take_text(out.size()));
  }
  if (has_automatic && has_numbers) return core::refused("a format mixes fields with and without numbers");
  return counted_text(std::move(out), left);
}

core::result<value> call_on_text(const std::string& self, std::string_view name, call_arguments arguments,
                                 allowance& left) {
  TROUPE_TRY(left.take(self.size() / 32 + 1));
  if (name == "startswith" || name == "endswith") return starts_or_ends(self, name, std::move(arguments));
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count")
    return found_at(self, name, std::move(arguments));
  if (name.ends_with("strip")) return stripped(self, name, std::move(arguments), left);
  if (name == "split" || name == "rsplit") return split(self, name, std::move(arguments), left);
  if (name.ends_with("partition")) return partitioned(self, name, std::move(arguments), left);
  if (name == "replace") return replaced(self, std::move(arguments), left);
  if (name == "join") return joined_items(self, std::move(arguments), left);
  if (name == "zfill") return filled(self, std::move(arguments), left);
  if (name == "format") return format_text(self, arguments, left);
  if (name == "removeprefix" || name == "removesuffix") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {""}, 1));
    TROUPE_ASSIGN(const auto part, text_argument(name, given[0]));
    if (name == "removeprefix") return text(self.starts_with(part) ? self.substr(part.size()) : self);
    return text(self.ends_with(part) ? self.substr(0, self.size() - part.size()) : self);
  }
  if (name == "splitlines") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"keepends"}, 0));
    TROUPE_TRY(left.take_text(self.size()));
    return list_of_texts(python_lines(self, given.has(0) && truth(given[0])), left);
  }
  TROUPE_TRY(bound(name, std::move(arguments), {}, 0));
  if (name == "upper") return counted_text(python_upper(self), left);
  if (name == "lower") return counted_text(python_lower(self), left);
  if (name == "capitalize") return counted_text(python_capitalize(self), left);
  if (name == "title") return titled(self, left);
  return are_all(self, name);
}

core::result<value> call_on_mapping(const dictionary_pointer& self, std::string_view name, call_arguments arguments,
                                    allowance& left) {
  if (name == "get") {
    TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {"", ""}, 1));
    TROUPE_TRY(check_key(given[0]));
    TROUPE_ASSIGN(const auto found, entry_of(*self, given[0], left));
    return found ? *found : given.get(1, none());
  }
  TROUPE_TRY(bound(name, std::move(arguments), {}, 0));
  if (name == "copy") return value{self};
  return value{dictionary_view{self, name == "keys"     ? dictionary_view::part::keys
                                     : name == "values" ? dictionary_view::part::values
                                                        : dictionary_view::part::items}};
}

core::result<value> call_on_list(const sequence_pointer& self, std::string_view name, call_arguments arguments,
                                 allowance& left) {
  if (name == "copy") {
    TROUPE_TRY(bound(name, std::move(arguments), {}, 0));
    return value{self};
  }
  TROUPE_ASSIGN(const auto given, bound(name, std::move(arguments), {""}, 1));
  int64_t count = 0;
  for (size_t i = 0; i < self->items.size(); ++i) {
    TROUPE_ASSIGN(const bool same, equal(self->items[i], given[0], left));
    if (!same) continue;
    if (name == "index") return whole(static_cast<int64_t>(i));
    ++count;
  }
  if (name == "index") return core::refused("index did not find the item");
  return whole(count);
}

core::result<value> call_on_loop(loop_state& self, call_arguments arguments) {
  if (!arguments.named.empty()) return core::refused("cycle takes no named arguments");
  if (arguments.positional.empty()) return core::refused("cycle needs an argument");
  if (self.is_closed) return core::refused("reading 'loop' after its loop has ended is not supported");
  const auto at = static_cast<size_t>(std::max<int64_t>(self.index0, 0)) % arguments.positional.size();
  return arguments.positional[at];
}

}  // namespace

method_kind method_of(const value& x, std::string_view name) {
  if (x.is<text_pointer>())
    return is_in(text_methods, name)           ? method_kind::usable
           : is_in(refused_text_methods, name) ? method_kind::refused
                                               : method_kind::none;
  if (x.is<dictionary_pointer>())
    return is_in(mapping_methods, name)          ? method_kind::usable
           : is_in(unsafe_mapping_methods, name) ? method_kind::unsafe
           : name == "fromkeys"                  ? method_kind::refused
                                                 : method_kind::none;
  if (const auto* s = x.as<sequence_pointer>()) {
    if (name == "count" || name == "index" || (name == "copy" && !(*s)->is_tuple)) return method_kind::usable;
    return !(*s)->is_tuple && is_in(unsafe_list_methods, name) ? method_kind::unsafe : method_kind::none;
  }
  if (x.is<bool>() || x.is<int64_t>() || x.is<double>())
    return is_in(number_attributes, name) || (x.is<double>() && (name == "hex" || name == "fromhex"))
               ? method_kind::refused
               : method_kind::none;
  if (x.is<number_range>() || x.is<dictionary_view>())
    return is_in(other_attributes, name) ? method_kind::refused : method_kind::none;
  return method_kind::none;
}

bool is_refused_method(std::string_view name) { return is_in(refused_text_methods, name) || name == "fromkeys"; }

core::result<value> replaced_text(std::string_view self, std::string_view old, std::string_view with, int64_t most,
                                  allowance& left) {
  TROUPE_TRY(left.take_text(self.size()));
  size_t places = 0;
  if (old.empty())
    places = code_points(self) + 1;
  else
    for (size_t at = self.find(old); at != self.npos; at = self.find(old, at + old.size())) ++places;
  if (most >= 0) places = std::min(places, static_cast<size_t>(most));
  if (!with.empty() && places > largest_text / with.size()) TROUPE_TRY(left.take_text(largest_text + 1));
  TROUPE_TRY(left.take_text(self.size() + places * with.size() - places * old.size()));
  return text(python_replace(self, old, with, most));
}

core::result<value> call_method(const bound_method& method, call_arguments arguments, allowance& left) {
  if (const auto* t = method.self.text()) return call_on_text(*t, method.name, std::move(arguments), left);
  if (const auto* d = method.self.as<dictionary_pointer>())
    return call_on_mapping(*d, method.name, std::move(arguments), left);
  if (const auto* s = method.self.as<sequence_pointer>())
    return call_on_list(*s, method.name, std::move(arguments), left);
  if (const auto* l = method.self.as<std::shared_ptr<loop_state>>()) return call_on_loop(**l, std::move(arguments));
  return core::refused(fmt::format("the method '{}' is not supported", core::shown(method.name)));
}

}  // namespace troupe::data::templates
