#include "data/templates/access.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/number.hpp"
#include "core/text.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/macro_object.hpp"
#include "data/templates/methods.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

tl::unexpected<core::error> refused_attribute(const value& of, std::string_view name) {
  return core::refused(
      fmt::format("the attribute '{}' of a value of type {} is not supported", core::shown(name), type_name(of)));
}

value no_attribute(const value& of, std::string_view name) {
  return undefined(fmt::format("a value of type {} has no attribute '{}'", type_name(of), core::shown(name)));
}

value method_value(const value& of, std::string_view name) {
  return value{std::make_shared<const bound_method>(bound_method{of, std::string(name)})};
}

/// Returns the attribute that Python's type has, without items; nullopt if it has none.
core::result<std::optional<value>> own_attribute(const value& of, std::string_view name, allowance& left) {
  if (name.starts_with("__")) return refused_attribute(of, name);
  switch (method_of(of, name)) {
    case method_kind::usable:
      return std::optional<value>(method_value(of, name));
    case method_kind::unsafe:
      return std::optional<value>(
          undefined(fmt::format("the method '{}' changes a value, which is not allowed", core::shown(name))));
    case method_kind::refused:
      return refused_attribute(of, name);
    case method_kind::none:
      break;
  }
  if (const auto* n = of.as<std::shared_ptr<name_space>>()) {
    const auto found = (*n)->attributes.find(name);
    return found == (*n)->attributes.end() ? std::optional<value>() : std::optional<value>(found->second);
  }
  if (const auto* l = of.as<std::shared_ptr<loop_state>>()) {
    if (name == "cycle") return std::optional<value>(method_value(of, name));
    if (name == "changed") return refused_attribute(of, name);
    return (*l)->attribute(name, left);
  }
  if (const auto* m = of.as<std::shared_ptr<const macro_object>>()) {
    if (name == "name" && (*m)->what->is == statement::kind::macro) return std::optional<value>(text((*m)->what->word));
    return refused_attribute(of, name);
  }
  if (of.is<lazy_pointer>() || of.is<global_function>() || of.is<marked_text>()) return refused_attribute(of, name);
  return std::optional<value>();
}

/// Returns the index in [0, length) that an integer means; nullopt if there is none.
std::optional<size_t> index_in(int64_t index, size_t length) {
  const auto n = static_cast<int64_t>(length);
  if (index < 0) index += n;
  if (index < 0 || index >= n) return std::nullopt;
  return static_cast<size_t>(index);
}

/// Returns item `index` of a list, text or range; nullopt if there is none.
std::optional<value> nth(const value& of, int64_t index) {
  if (const auto* s = of.as<sequence_pointer>()) {
    const auto at = index_in(index, (*s)->items.size());
    return at ? std::optional<value>((*s)->items[*at]) : std::nullopt;
  }
  if (const auto* t = of.text()) {
    const auto at = index_in(index, code_points(*t));
    if (!at) return std::nullopt;
    const size_t begin = byte_of(*t, *at);
    return text(t->substr(begin, byte_of(std::string_view(*t).substr(begin), 1)));
  }
  const auto& range = *of.as<number_range>();
  const auto at = index_in(index, static_cast<size_t>(range_length(range)));
  return at ? std::optional<value>(whole(range_item(range, static_cast<int64_t>(*at)))) : std::nullopt;
}

/// The indices of a slice: `count` ones from `first` on in steps of `step`.
struct slice_indices {
  int64_t first = 0, step = 1, count = 0;
};

core::result<slice_indices> indices_of(const value& begin, const value& end, const value& step, size_t size) {
  const auto number = [](const value& x) -> core::result<std::optional<int64_t>> {
    if (x.is<none_value>()) return std::optional<int64_t>();
    if (const auto i = integer_of(x)) return i;
    return core::refused(fmt::format("a slice wants integers, got a value of type {}", type_name(x)));
  };
  TROUPE_ASSIGN(const auto from, number(begin));
  TROUPE_ASSIGN(const auto to, number(end));
  TROUPE_ASSIGN(const auto by, number(step));
  slice_indices out;
  out.step = std::max(by.value_or(1), -std::numeric_limits<int64_t>::max());
  if (out.step == 0) return core::refused("the step of a slice is 0");
  const auto length = static_cast<int64_t>(size);
  const bool is_down = out.step < 0;
  const int64_t lowest = is_down ? -1 : 0, highest = is_down ? length - 1 : length;
  const auto clamped = [&](const std::optional<int64_t>& x, int64_t otherwise) {
    if (!x) return otherwise;
    return *x < 0 ? std::max(*x + length, lowest) : std::min(*x, highest);
  };
  out.first = clamped(from, is_down ? highest : lowest);
  const int64_t stop = clamped(to, is_down ? lowest : highest);
  if (is_down && stop < out.first) out.count = (out.first - stop - 1) / -out.step + 1;
  if (!is_down && out.first < stop) out.count = (stop - out.first - 1) / out.step + 1;
  return out;
}

}  // namespace

core::result<std::optional<value>> entry_of(const dictionary& in, const value& key, allowance& left) {
  TROUPE_TRY(left.take(in.entries.size() / 16 + 1));
  if (const auto* t = key.any_text()) {
    const auto* const found = in.find(*t);
    return found == nullptr ? std::optional<value>() : std::optional<value>(*found);
  }
  for (const auto& [k, x] : in.entries) {
    TROUPE_ASSIGN(const bool same, equal(k, key, left));
    if (same) return std::optional<value>(x);
  }
  return std::optional<value>();
}

core::result<value> attribute_of(const value& of, std::string_view name, allowance& left) {
  if (const auto* u = of.as<undefined_value>()) return core::refused(u->why);
  TROUPE_ASSIGN(auto own, own_attribute(of, name, left));
  if (own) return *std::move(own);
  if (const auto* d = of.as<dictionary_pointer>()) {
    TROUPE_ASSIGN(auto found, entry_of(**d, text(std::string(name)), left));
    if (found) return *std::move(found);
  }
  return no_attribute(of, name);
}

core::result<value> item_of(const value& of, const value& key, allowance& left) {
  if (const auto* u = of.as<undefined_value>()) return core::refused(u->why);
  if (of.is<marked_text>())
    return core::refused(fmt::format("an item of a value of type {} is not supported", type_name(of)));
  TROUPE_TRY(left.take(1));
  if (const auto* d = of.as<dictionary_pointer>(); d != nullptr && check_key(key)) {
    TROUPE_ASSIGN(auto found, entry_of(**d, key, left));
    if (found) return *std::move(found);
  }
  if (of.is<sequence_pointer>() || of.is<text_pointer>() || of.is<number_range>())
    if (const auto index = integer_of(key)) {
      if (const auto* t = of.text()) TROUPE_TRY(left.take(t->size() / 32 + 1));
      auto found = nth(of, *index);
      return found ? *std::move(found)
                   : undefined(fmt::format("a value of type {} has no item {}", type_name(of), *index));
    }
  if (const auto* name = key.text()) {
    TROUPE_ASSIGN(auto own, own_attribute(of, *name, left));
    return own ? *std::move(own) : no_attribute(of, *name);
  }
  return undefined(fmt::format("a value of type {} has no such item", type_name(of)));
}

core::result<value> slice_of(const value& of, const value& begin, const value& end, const value& step,
                             allowance& left) {
  if (const auto* u = of.as<undefined_value>()) return core::refused(u->why);
  if (const auto* s = of.as<sequence_pointer>()) {
    TROUPE_ASSIGN(const auto part, indices_of(begin, end, step, (*s)->items.size()));
    values out;
    out.reserve(static_cast<size_t>(part.count));
    for (int64_t i = 0; i < part.count; ++i)
      out.push_back((*s)->items[static_cast<size_t>(part.first + i * part.step)]);
    return list_of(std::move(out), left, (*s)->is_tuple);
  }
  if (const auto* t = of.text()) {
    TROUPE_TRY(left.take_text(t->size()));
    TROUPE_ASSIGN(const auto part, indices_of(begin, end, step, code_points(*t)));
    if (part.step == 1) {
      const size_t from = byte_of(*t, static_cast<size_t>(std::max<int64_t>(part.first, 0)));
      return text(t->substr(from, byte_of(std::string_view(*t).substr(from), static_cast<size_t>(part.count))));
    }
    std::vector<std::string_view> characters;
    for (std::string_view rest = *t; !rest.empty(); rest.remove_prefix(characters.back().size()))
      characters.push_back(rest.substr(0, byte_of(rest, 1)));
    std::string out;
    for (int64_t i = 0; i < part.count; ++i) out += characters[static_cast<size_t>(part.first + i * part.step)];
    return text(std::move(out));
  }
  return core::refused(fmt::format("a slice of a value of type {} is not supported", type_name(of)));
}

core::result<value> at_path(value of, const value& path, const value& otherwise, allowance& left) {
  if (path.is<none_value>()) return of;
  const auto step = [&](const value& key) -> core::result<void> {
    TROUPE_ASSIGN(of, item_of(of, key, left));
    if (of.is<undefined_value>() && !otherwise.is<none_value>()) of = otherwise;
    return {};
  };
  if (path.text() == nullptr) {
    TROUPE_TRY(step(path));
    return of;
  }
  for (const auto& part : python_split(*path.text(), ".", -1, false)) {
    const auto number = core::number_of<int64_t>(part);
    const bool is_number = number && !part.starts_with('-');
    TROUPE_TRY(step(is_number ? whole(*number) : text(part)));
  }
  return of;
}

}  // namespace troupe::data::templates
