#include "config/document/yaml_tree.hpp"

#include <algorithm>
#include <utility>

#include "config/document/scalars.hpp"
#include "core/number.hpp"

namespace troupe::config {
namespace {

constexpr std::string_view word_characters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    "0123456789_-";

/// Returns the position at which the first part of a dotted key ends; the part may be in quotes.
size_t end_of_part(std::string_view key) {
  if (!key.starts_with('"')) return std::min(key.find('.'), key.size());
  size_t end = 1;
  while (end < key.size() && key[end] != '"') end += key[end] == '\\' ? 2 : 1;
  return std::min(key.find('.', std::min(end, key.size())), key.size());
}

/// Returns a part of a dotted key as a YAML name with the same text. The name is in quotes if YAML would read it as
/// something else: `null` is no text, and a leading `-` starts a list item.
std::string name_in_yaml(const std::string& part) {
  const bool is_null = part == "null" || part == "Null" || part == "NULL";
  return is_null || part.starts_with('-') ? quoted(part) : part;
}

}  // namespace

std::string part_of_key(const std::string& name) {
  const bool is_word = !name.empty() && name.find_first_not_of(word_characters) == std::string::npos;
  return is_word ? name : quoted(name);
}

yaml_tree::branch& yaml_tree::child(branch& of, std::string_view name) {
  const auto same = std::ranges::find(of.children, name, &branch::name);
  if (same != of.children.end()) return *same;
  return of.children.emplace_back(branch{std::string(name), {}});
}

yaml_tree::branch& yaml_tree::item(branch& of, size_t number) {
  of.is_list = true;
  if (of.children.size() <= number) of.children.resize(number + 1);
  return of.children[number];
}

yaml_tree::branch& yaml_tree::at(std::string_view key) {
  branch* here = &root_;
  while (!key.empty()) {
    const size_t end = end_of_part(key);
    const std::string_view part = key.substr(0, end);
    const size_t bracket = part.starts_with('"') ? std::string_view::npos : part.find('[');
    here = &child(*here, part.substr(0, bracket));
    if (bracket != std::string_view::npos) {
      std::string_view number = part.substr(bracket + 1);
      here = &item(*here, core::take_number<size_t>(number).value_or(0));
    }
    key.remove_prefix(std::min(end + 1, key.size()));
  }
  return *here;
}

void yaml_tree::put(std::string_view key, std::string value) { at(key).value = std::move(value); }

void yaml_tree::put_list(std::string_view key, size_t items) {
  branch& list = at(key);
  list.is_list = true;
  list.children.resize(items);
}

void yaml_tree::write_all(const std::vector<branch>& all, size_t indent, std::string& out) {
  for (const branch& one : all) write(one, indent, out);
}

void yaml_tree::write(const branch& one, size_t indent, std::string& out) {
  out.append(indent, ' ') += name_in_yaml(one.name) + ":";
  if (one.value) {
    out += " " + *one.value + "\n";
  } else if (one.children.empty()) {
    out += one.is_list ? " []\n" : " {}\n";
  } else if (!one.is_list) {
    out += "\n";
    write_all(one.children, indent + 2, out);
  } else {
    out += "\n";
    for (const branch& of_list : one.children) {
      const size_t dash = out.size() + indent + 2;
      if (of_list.children.empty())
        out.append(indent + 4, ' ') += "{}\n";
      else
        write_all(of_list.children, indent + 4, out);
      out[dash] = '-';
    }
  }
}

std::string yaml_tree::text() const {
  std::string out;
  write_all(root_.children, 0, out);
  return out;
}

}  // namespace troupe::config
