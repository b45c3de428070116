#include "data/templates/printing.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "core/utf8.hpp"
#include "data/templates/python_text.hpp"

namespace troupe::data::templates {
namespace {

core::result<void> append_quoted(const value& x, std::string& out, allowance& left);

core::result<void> append_entries(const dictionary& of, dictionary_view::part shows, std::string& out,
                                  allowance& left) {
  bool is_first = true;
  for (const auto& [key, one] : of.entries) {
    if (!std::exchange(is_first, false)) out += ", ";
    if (shows == dictionary_view::part::items) out += '(';
    if (shows != dictionary_view::part::values) TROUPE_TRY(append_quoted(key, out, left));
    if (shows == dictionary_view::part::items) out += ", ";
    if (shows != dictionary_view::part::keys) TROUPE_TRY(append_quoted(one, out, left));
    if (shows == dictionary_view::part::items) out += ')';
  }
  return {};
}

core::result<void> append_quoted(const value& x, std::string& out, allowance& left) {
  TROUPE_TRY(left.take(1));
  if (out.size() > largest_text) return left.take_text(out.size());
  if (x.is<undefined_value>()) {
    out += "Undefined";
  } else if (x.is<none_value>()) {
    out += "None";
  } else if (const auto* b = x.as<bool>()) {
    out += *b ? "True" : "False";
  } else if (const auto* i = x.as<int64_t>()) {
    out += fmt::to_string(*i);
  } else if (const auto* d = x.as<double>()) {
    out += python_float(*d);
  } else if (const auto* t = x.text()) {
    out += python_quoted(*t);
  } else if (const auto* marked = x.as<marked_text>()) {
    out.append("Markup(").append(python_quoted(*marked->of)).append(")");
  } else if (const auto* s = x.as<sequence_pointer>()) {
    const auto& items = (*s)->items;
    out += (*s)->is_tuple ? '(' : '[';
    for (size_t n = 0; n < items.size(); ++n) {
      if (n > 0) out += ", ";
      TROUPE_TRY(append_quoted(items[n], out, left));
    }
    if ((*s)->is_tuple && items.size() == 1) out += ',';
    out += (*s)->is_tuple ? ')' : ']';
  } else if (const auto* m = x.as<dictionary_pointer>()) {
    out += '{';
    bool is_first = true;
    for (const auto& [key, one] : (*m)->entries) {
      if (!std::exchange(is_first, false)) out += ", ";
      TROUPE_TRY(append_quoted(key, out, left));
      out += ": ";
      TROUPE_TRY(append_quoted(one, out, left));
    }
    out += '}';
  } else if (const auto* v = x.as<dictionary_view>()) {
    out.append(type_name(x)).append("([");
    TROUPE_TRY(append_entries(*v->of, v->shows, out, left));
    out += "])";
  } else if (const auto* r = x.as<number_range>()) {
    out += r->step == 1 ? fmt::format("range({}, {})", r->start, r->stop)
                        : fmt::format("range({}, {}, {})", r->start, r->stop, r->step);
  } else {
    return core::refused(fmt::format("printing a value of type {} is not supported", type_name(x)));
  }
  return {};
}

/// Writes one value as JSON.
class json_writer {
 public:
  json_writer(const json_style& style, allowance& left) : style_(style), left_(left) {}

  core::result<void> write(const value& x, size_t level) {
    TROUPE_TRY(left_.take(1));
    if (out_.size() > largest_text) return left_.take_text(out_.size());
    if (x.is<none_value>()) {
      out_ += "null";
    } else if (const auto* b = x.as<bool>()) {
      out_ += *b ? "true" : "false";
    } else if (const auto* i = x.as<int64_t>()) {
      out_ += fmt::to_string(*i);
    } else if (const auto* d = x.as<double>()) {
      out_ += number(*d);
    } else if (const auto* t = x.text()) {
      write_text(*t);
    } else if (const auto* s = x.as<sequence_pointer>()) {
      return write_list(**s, level);
    } else if (const auto* m = x.as<dictionary_pointer>()) {
      return write_dictionary(**m, level);
    } else {
      return core::refused(fmt::format("a value of type {} cannot be written as JSON", type_name(x)));
    }
    return {};
  }

  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  static std::string number(double x) {
    if (std::isnan(x)) return "NaN";
    if (std::isinf(x)) return x < 0 ? "-Infinity" : "Infinity";
    return python_float(x);
  }

  void write_text(std::string_view text) {
    out_ += '"';
    while (!text.empty()) {
      const size_t bytes = std::max<size_t>(1, core::utf8_character(text));
      write_character(core::utf8_code(text), text.substr(0, bytes));
      text.remove_prefix(bytes);
    }
    out_ += '"';
  }

  void write_character(uint32_t code, std::string_view character) {
    constexpr std::string_view short_codes = "\b\f\n\r\t\"\\", letters = "bfnrt\"\\";
    const size_t at = code < 0x80 ? short_codes.find(static_cast<char>(code)) : short_codes.npos;
    if (at != short_codes.npos)
      (out_ += '\\') += letters[at];
    else if (code < 0x20 || (style_.is_ascii && code == 0x7F))
      out_ += fmt::format("\\u{:04x}", code);
    else if (code < 0x80 || !style_.is_ascii)
      out_ += character;
    else if (code < 0x10000)
      out_ += fmt::format("\\u{:04x}", code);
    else
      out_ += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + ((code - 0x10000) >> 10), 0xDC00 + ((code - 0x10000) & 0x3FF));
  }

  void begin_line(size_t level) {
    if (!style_.indent) return;
    out_ += '\n';
    for (size_t i = 0; i < level; ++i) out_ += *style_.indent;
  }

  core::result<void> write_list(const sequence& list, size_t level) {
    if (list.items.empty()) {
      out_ += "[]";
      return {};
    }
    out_ += '[';
    for (size_t n = 0; n < list.items.size(); ++n) {
      if (n > 0) out_ += style_.between_items;
      begin_line(level + 1);
      TROUPE_TRY(write(list.items[n], level + 1));
    }
    begin_line(level);
    out_ += ']';
    return {};
  }

  core::result<std::string> key_text(const value& key) const {
    if (const auto* t = key.text()) return *t;
    if (key.is<none_value>()) return std::string("null");
    if (const auto* b = key.as<bool>()) return std::string(*b ? "true" : "false");
    if (const auto* i = key.as<int64_t>()) return fmt::to_string(*i);
    if (const auto* d = key.as<double>()) return number(*d);
    return core::refused(fmt::format("a key of type {} cannot be written as JSON", type_name(key)));
  }

  core::result<std::vector<const std::pair<value, value>*>> in_order(const dictionary& of) const {
    std::vector<const std::pair<value, value>*> out;
    for (const auto& entry : of.entries) out.push_back(&entry);
    if (!style_.sorts_keys) return out;
    const auto no_text = std::ranges::find_if(out, [](const auto* e) { return e->first.text() == nullptr; });
    if (out.size() > 1 && no_text != out.end())
      return core::refused("sorting keys that are not texts is not supported");
    std::ranges::stable_sort(out, [](const auto* x, const auto* y) { return *x->first.text() < *y->first.text(); });
    return out;
  }

  core::result<void> write_dictionary(const dictionary& of, size_t level) {
    if (of.entries.empty()) {
      out_ += "{}";
      return {};
    }
    TROUPE_ASSIGN(const auto entries, in_order(of));
    out_ += '{';
    for (size_t n = 0; n < entries.size(); ++n) {
      if (n > 0) out_ += style_.between_items;
      begin_line(level + 1);
      TROUPE_ASSIGN(const auto key, key_text(entries[n]->first));
      write_text(key);
      out_ += style_.after_key;
      TROUPE_TRY(write(entries[n]->second, level + 1));
    }
    begin_line(level);
    out_ += '}';
    return {};
  }

  const json_style& style_;
  allowance& left_;
  std::string out_;
};

}  // namespace

core::result<std::string> printed(const value& x, allowance& left) {
  if (x.is<undefined_value>()) return std::string();
  if (const auto* t = x.any_text()) return *t;
  return quoted(x, left);
}

core::result<std::string> quoted(const value& x, allowance& left) {
  std::string out;
  TROUPE_TRY(append_quoted(x, out, left));
  TROUPE_TRY(left.take_text(out.size()));
  return out;
}

core::result<std::string> json_of(const value& x, const json_style& style, allowance& left) {
  json_writer writer(style, left);
  TROUPE_TRY(writer.write(x, 0));
  std::string out = writer.take();
  TROUPE_TRY(left.take_text(out.size()));
  return out;
}

}  // namespace troupe::data::templates
