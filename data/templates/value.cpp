#include "data/templates/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/utf8.hpp"
#include "data/templates/loop_state.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

constexpr double two_to_63 = 9223372036854775808.0;

/// Returns -1, 0 or 1 for x < y, x == y and x > y; 2 if y is a NaN.
int order_of(int64_t x, double y) {
  if (std::isnan(y)) return 2;
  if (y >= two_to_63) return -1;
  if (y < -two_to_63) return 1;
  const auto below = static_cast<int64_t>(std::floor(y));
  if (x != below) return x < below ? -1 : 1;
  return static_cast<double>(below) < y ? -1 : 0;
}

int order_of(double x, double y) { return std::isnan(x) || std::isnan(y) ? 2 : x < y ? -1 : x > y ? 1 : 0; }

/// Returns the order of two numbers; nullopt if one of the values is no number.
std::optional<int> number_order(const value& x, const value& y) {
  const auto a = integer_of(x), b = integer_of(y);
  const auto* c = x.as<double>();
  const auto* d = y.as<double>();
  if (a && b) return *a < *b ? -1 : *a > *b ? 1 : 0;
  if (a && d != nullptr) return order_of(*a, *d);
  if (c != nullptr && b) {
    const int swapped = order_of(*b, *c);
    return swapped == 2 ? 2 : -swapped;
  }
  if (c != nullptr && d != nullptr) return order_of(*c, *d);
  return std::nullopt;
}

core::result<bool> equal_sequences(const sequence& x, const sequence& y, allowance& left) {
  if (x.is_tuple != y.is_tuple || x.items.size() != y.items.size()) return false;
  for (size_t i = 0; i < x.items.size(); ++i) {
    TROUPE_ASSIGN(const bool same, equal(x.items[i], y.items[i], left));
    if (!same) return false;
  }
  return true;
}

core::result<const value*> found(const dictionary& in, const value& key, allowance& left) {
  if (const auto* t = key.any_text()) return in.find(*t);
  for (const auto& [k, v] : in.entries) {
    TROUPE_ASSIGN(const bool same, equal(k, key, left));
    if (same) return &v;
  }
  return nullptr;
}

core::result<bool> equal_dictionaries(const dictionary& x, const dictionary& y, allowance& left) {
  if (x.entries.size() != y.entries.size()) return false;
  for (const auto& [key, one] : x.entries) {
    TROUPE_ASSIGN(const value* const other, found(y, key, left));
    if (other == nullptr) return false;
    TROUPE_ASSIGN(const bool same, equal(one, *other, left));
    if (!same) return false;
  }
  return true;
}

uint32_t deepest_of(const values& items) {
  uint32_t out = 0;
  for (const auto& one : items) out = std::max(out, depth_of(one));
  return out;
}

tl::unexpected<core::error> too_deep() {
  return core::fail(core::error_kind::limit, fmt::format("values are nested more than {} deep", deepest_value));
}

cursor cursor_of(sequence_pointer of) {
  const size_t length = of->items.size();
  return {[of = std::move(of), at = size_t{0}]() mutable -> core::result<std::optional<value>> {
            if (at == of->items.size()) return std::optional<value>();
            return std::optional<value>(of->items[at++]);
          },
          length};
}

cursor cursor_of(text_pointer of) {
  const size_t length = code_points(*of);
  return {[of = std::move(of), at = size_t{0}]() mutable -> core::result<std::optional<value>> {
            if (at == of->size()) return std::optional<value>();
            const size_t bytes = core::utf8_character(std::string_view(*of).substr(at));
            value out = text(of->substr(at, bytes));
            at += bytes;
            return std::optional<value>(std::move(out));
          },
          length};
}

cursor cursor_of(dictionary_view of) {
  const size_t length = of.of->entries.size();
  return {[of = std::move(of), at = size_t{0}]() mutable -> core::result<std::optional<value>> {
            if (at == of.of->entries.size()) return std::optional<value>();
            const auto& [key, one] = of.of->entries[at++];
            if (of.shows == dictionary_view::part::keys) return std::optional<value>(key);
            if (of.shows == dictionary_view::part::values) return std::optional<value>(one);
            auto pair = std::make_shared<sequence>();
            pair->items = {key, one};
            pair->is_tuple = true;
            pair->depth = 1 + std::max(depth_of(key), depth_of(one));
            return std::optional<value>(value{sequence_pointer(std::move(pair))});
          },
          length};
}

cursor cursor_of(number_range of) {
  return {[of, at = int64_t{0}, length = range_length(of)]() mutable -> core::result<std::optional<value>> {
            if (at == length) return std::optional<value>();
            return std::optional<value>(whole(range_item(of, at++)));
          },
          static_cast<size_t>(range_length(of))};
}

}  // namespace

const value* dictionary::find(std::string_view key) const {
  for (const auto& [k, v] : entries)
    if (const auto* t = k.any_text(); t != nullptr && *t == key) return &v;
  return nullptr;
}

uint32_t depth_of(const value& x) {
  if (const auto* s = x.as<sequence_pointer>()) return (*s)->depth;
  if (const auto* d = x.as<dictionary_pointer>()) return (*d)->depth;
  if (const auto* v = x.as<dictionary_view>()) return v->of->depth + 1;
  if (const auto* l = x.as<lazy_pointer>()) return (*l)->depth;
  if (const auto* m = x.as<std::shared_ptr<const bound_method>>()) return depth_of((*m)->self) + 1;
  if (x.is<std::shared_ptr<loop_state>>()) return 1;
  return 0;
}

core::result<value> list_of(values items, allowance& left, bool is_tuple) {
  TROUPE_TRY(left.take_items(items.size()));
  auto out = std::make_shared<sequence>();
  out->depth = 1 + deepest_of(items);
  out->items = std::move(items);
  out->is_tuple = is_tuple;
  if (out->depth > deepest_value) return too_deep();
  return value{sequence_pointer(std::move(out))};
}

core::result<value> dictionary_of(std::vector<std::pair<value, value>> entries, allowance& left) {
  TROUPE_TRY(left.take_items(entries.size()));
  auto out = std::make_shared<dictionary>();
  for (auto& [key, one] : entries) {
    TROUPE_TRY(check_key(key));
    TROUPE_TRY(left.take(out->entries.size() / 16 + 1));
    TROUPE_ASSIGN(const value* const before, found(*out, key, left));
    out->depth = std::max({out->depth, 1 + depth_of(key), 1 + depth_of(one)});
    if (before == nullptr)
      out->entries.emplace_back(std::move(key), std::move(one));
    else
      out->entries[static_cast<size_t>(
                       std::ranges::find_if(out->entries, [&](const auto& e) { return &e.second == before; }) -
                       out->entries.begin())]
          .second = std::move(one);
  }
  if (out->depth > deepest_value) return too_deep();
  return value{dictionary_pointer(std::move(out))};
}

core::result<value> lazy_of(std::function<core::result<std::optional<value>>()> next, uint32_t depth) {
  if (depth + 1 > deepest_value) return too_deep();
  auto out = std::make_shared<lazy_items>();
  out->next = std::move(next);
  out->depth = depth + 1;
  return value{std::move(out)};
}

core::result<value> value_of(const nlohmann::ordered_json& json, uint32_t depth) {
  if (depth > deepest_value) return too_deep();
  switch (json.type()) {
    case nlohmann::ordered_json::value_t::null:
      return none();
    case nlohmann::ordered_json::value_t::boolean:
      return boolean(json.get<bool>());
    case nlohmann::ordered_json::value_t::number_integer:
      return whole(json.get<int64_t>());
    case nlohmann::ordered_json::value_t::number_unsigned: {
      const auto x = json.get<uint64_t>();
      if (x > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return core::refused(fmt::format("the number {} is beyond 64 bits", x));
      return whole(static_cast<int64_t>(x));
    }
    case nlohmann::ordered_json::value_t::number_float: {
      const auto x = json.get<double>();
      if (std::abs(x) >= two_to_63) return core::refused(fmt::format("the number {} is beyond 64 bits", x));
      return real(x);
    }
    case nlohmann::ordered_json::value_t::string: {
      const auto& s = json.get_ref<const std::string&>();
      if (!core::is_utf8(s)) return core::refused("a text is not UTF-8");
      return text(s);
    }
    case nlohmann::ordered_json::value_t::array: {
      auto out = std::make_shared<sequence>();
      out->items.reserve(json.size());
      for (const auto& one : json) {
        TROUPE_ASSIGN(auto item, value_of(one, depth + 1));
        out->depth = std::max(out->depth, 1 + depth_of(item));
        out->items.push_back(std::move(item));
      }
      return value{sequence_pointer(std::move(out))};
    }
    case nlohmann::ordered_json::value_t::object: {
      auto out = std::make_shared<dictionary>();
      out->entries.reserve(json.size());
      for (auto entry = json.begin(); entry != json.end(); ++entry) {
        if (!core::is_utf8(entry.key())) return core::refused("a key is not UTF-8");
        TROUPE_ASSIGN(auto item, value_of(entry.value(), depth + 1));
        out->depth = std::max(out->depth, 1 + depth_of(item));
        out->entries.emplace_back(text(entry.key()), std::move(item));
      }
      return value{dictionary_pointer(std::move(out))};
    }
    case nlohmann::ordered_json::value_t::binary:
    case nlohmann::ordered_json::value_t::discarded:
      break;
  }
  return core::refused("a value of JSON that templates do not have");
}

std::string_view type_name(const value& x) {
  if (x.is<undefined_value>()) return "Undefined";
  if (x.is<none_value>()) return "NoneType";
  if (x.is<bool>()) return "bool";
  if (x.is<int64_t>()) return "int";
  if (x.is<double>()) return "float";
  if (x.is<text_pointer>()) return "str";
  if (x.is<marked_text>()) return "Markup (a text after the filter 'safe')";
  if (const auto* s = x.as<sequence_pointer>()) return (*s)->is_tuple ? "tuple" : "list";
  if (x.is<dictionary_pointer>()) return "dict";
  if (x.is<number_range>()) return "range";
  if (const auto* v = x.as<dictionary_view>())
    return v->shows == dictionary_view::part::keys     ? "dict_keys"
           : v->shows == dictionary_view::part::values ? "dict_values"
                                                       : "dict_items";
  if (x.is<lazy_pointer>()) return "generator";
  if (x.is<std::shared_ptr<name_space>>()) return "namespace";
  if (x.is<std::shared_ptr<const macro_object>>()) return "macro";
  if (x.is<std::shared_ptr<loop_state>>()) return "loop";
  if (x.is<std::shared_ptr<const bound_method>>()) return "method";
  return "function";
}

bool truth(const value& x) {
  if (x.is<undefined_value>() || x.is<none_value>()) return false;
  if (const auto* b = x.as<bool>()) return *b;
  if (const auto* i = x.as<int64_t>()) return *i != 0;
  if (const auto* d = x.as<double>()) return *d != 0;
  if (const auto* t = x.any_text()) return !t->empty();
  if (const auto* s = x.as<sequence_pointer>()) return !(*s)->items.empty();
  if (const auto* d = x.as<dictionary_pointer>()) return !(*d)->entries.empty();
  if (const auto* v = x.as<dictionary_view>()) return !v->of->entries.empty();
  if (const auto* r = x.as<number_range>()) return range_length(*r) != 0;
  return true;
}

std::optional<int64_t> integer_of(const value& x) {
  if (const auto* i = x.as<int64_t>()) return *i;
  if (const auto* b = x.as<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

int64_t range_length(const number_range& r) {
  // The differences fit into 65 bits at most, so they are formed without a sign.
  const auto distance = [](int64_t from, int64_t to) {
    return static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  };
  uint64_t out = 0;
  if (r.step > 0 && r.start < r.stop)
    out = (distance(r.start, r.stop) - 1) / static_cast<uint64_t>(r.step) + 1;
  else if (r.step < 0 && r.start > r.stop)
    out = (distance(r.stop, r.start) - 1) / (uint64_t{0} - static_cast<uint64_t>(r.step)) + 1;
  return static_cast<int64_t>(std::min(out, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

int64_t range_item(const number_range& r, int64_t at) {
  // The product may need more than 64 bits although the sum does not.
  return static_cast<int64_t>(static_cast<uint64_t>(r.start) +
                              static_cast<uint64_t>(r.step) * static_cast<uint64_t>(at));
}

core::result<bool> equal(const value& x, const value& y, allowance& left) {
  TROUPE_TRY(left.take(1));
  if (const auto order = number_order(x, y)) return *order == 0;
  if (x.any_text() != nullptr && y.any_text() != nullptr) return *x.any_text() == *y.any_text();
  if (x.holds.index() != y.holds.index()) return false;
  if (x.is<undefined_value>() || x.is<none_value>()) return true;
  if (const auto* s = x.as<sequence_pointer>()) return equal_sequences(**s, **y.as<sequence_pointer>(), left);
  if (const auto* d = x.as<dictionary_pointer>()) return equal_dictionaries(**d, **y.as<dictionary_pointer>(), left);
  if (const auto* n = x.as<std::shared_ptr<name_space>>()) return *n == *y.as<std::shared_ptr<name_space>>();
  if (const auto* m = x.as<std::shared_ptr<const macro_object>>())
    return *m == *y.as<std::shared_ptr<const macro_object>>();
  if (const auto* l = x.as<std::shared_ptr<loop_state>>()) return *l == *y.as<std::shared_ptr<loop_state>>();
  return core::refused(fmt::format("comparing two values of type {} is not supported", type_name(x)));
}

core::result<bool> less(const value& x, const value& y, allowance& left) {
  TROUPE_TRY(left.take(1));
  if (const auto order = number_order(x, y)) return *order == -1;
  if (const auto* t = x.text(); t != nullptr && y.text() != nullptr) return *t < *y.text();
  const auto* s = x.as<sequence_pointer>();
  const auto* o = y.as<sequence_pointer>();
  if (s == nullptr || o == nullptr || (*s)->is_tuple != (*o)->is_tuple)
    return core::refused(fmt::format("values of types {} and {} have no order", type_name(x), type_name(y)));
  const values &a = (*s)->items, &b = (*o)->items;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    TROUPE_ASSIGN(const bool same, equal(a[i], b[i], left));
    if (!same) return less(a[i], b[i], left);
  }
  return a.size() < b.size();
}

core::result<void> check_key(const value& x) {
  if (const auto* s = x.as<sequence_pointer>(); s != nullptr && (*s)->is_tuple) {
    for (const auto& one : (*s)->items) TROUPE_TRY(check_key(one));
    return {};
  }
  if (x.is<undefined_value>() || x.is<none_value>() || x.is<bool>() || x.is<int64_t>() || x.is<double>() ||
      x.any_text() != nullptr)
    return {};
  return core::refused(fmt::format("a value of type {} cannot be a key", type_name(x)));
}

core::result<cursor> items_of(const value& x, allowance& left) {
  TROUPE_TRY(left.take(1));
  if (x.is<undefined_value>())
    return cursor{[]() -> core::result<std::optional<value>> { return std::optional<value>(); }, 0};
  if (const auto* s = x.as<sequence_pointer>()) return cursor_of(*s);
  if (const auto* d = x.as<dictionary_pointer>()) return cursor_of(dictionary_view{*d, dictionary_view::part::keys});
  if (const auto* t = x.as<text_pointer>()) return cursor_of(*t);
  if (const auto* v = x.as<dictionary_view>()) return cursor_of(*v);
  if (const auto* r = x.as<number_range>()) return cursor_of(*r);
  if (const auto* l = x.as<lazy_pointer>())
    return cursor{[of = *l]() -> core::result<std::optional<value>> { return of->next(); }, std::nullopt};
  return core::refused(fmt::format("a value of type {} has no items", type_name(x)));
}

core::result<values> all_items_of(const value& x, allowance& left) {
  if (const auto* s = x.as<sequence_pointer>()) {
    TROUPE_TRY(left.take_items((*s)->items.size()));
    return (*s)->items;
  }
  TROUPE_ASSIGN(const auto from, items_of(x, left));
  values out;
  for (;;) {
    TROUPE_ASSIGN(auto one, from.next());
    if (!one) return out;
    TROUPE_TRY(left.take(1));
    if (out.size() == most_items) TROUPE_TRY(left.take_items(most_items + 1));
    out.push_back(*std::move(one));
  }
}

}  // namespace troupe::data::templates
