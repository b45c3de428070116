#include "config/document/document.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace troupe::config {

const node* node::find(std::string_view name) const {
  for (const entry& e : entries)
    if (e.name == name) return e.value.get();
  return nullptr;
}

namespace {

void write(const node& value, size_t most, std::string& out) {
  if (out.size() > most) return;
  switch (value.kind) {
    case node_kind::null:
      out += "null";
      return;
    case node_kind::plain:
      out += value.text;
      return;
    case node_kind::quoted:
      out += nlohmann::json(value.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      return;
    case node_kind::sequence:
      out += '[';
      for (size_t i = 0; i < value.items.size() && out.size() <= most; ++i) {
        if (i > 0) out += ", ";
        write(*value.items[i], most, out);
      }
      out += ']';
      return;
    case node_kind::mapping:
      out += '{';
      for (size_t i = 0; i < value.entries.size() && out.size() <= most; ++i) {
        if (i > 0) out += ", ";
        out += value.entries[i].name + ": ";
        write(*value.entries[i].value, most, out);
      }
      out += '}';
      return;
  }
}

}  // namespace

std::string shown(const node& value, size_t most_characters) {
  std::string out;
  write(value, most_characters, out);
  for (char& c : out)
    // Replaces line ends and other control characters, because a message is one line.
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  if (out.size() <= most_characters) return out;
  size_t end = most_characters - 3;
  // Moves the end of the shortened text back to the beginning of a UTF-8 character.
  while (end > 0 && (static_cast<unsigned char>(out[end]) & 0xC0U) == 0x80) --end;
  return out.substr(0, end) + "...";
}

namespace {

/// True for a plain text that YAML reads as the same plain text and not as null.
bool stays_bare(std::string_view text) {
  constexpr std::string_view letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (const std::string_view nothing : {"none", "null", "Null", "NULL"})
    if (text == nothing) return false;
  return text.find_first_of(letters) != std::string_view::npos && std::ranges::all_of(text, [&](char c) {
           return (letters.find(c) != letters.npos) || std::string_view("_.+-").find(c) != letters.npos;
         });
}

}  // namespace

std::string as_yaml(const node& value) {
  const auto quoted = [](const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  std::string out;
  switch (value.kind) {
    case node_kind::null:
      return "null";
    case node_kind::quoted:
      return quoted(value.text);
    case node_kind::plain: {
      // Numbers and booleans change their meaning in quotes; any other plain text does not.
      return stays_bare(value.text) ? value.text : quoted(value.text);
    }
    case node_kind::sequence:
      for (const node_ptr& item : value.items) out += (out.empty() ? "" : ", ") + as_yaml(*item);
      return "[" + out + "]";
    case node_kind::mapping:
      for (const entry& e : value.entries) out += (out.empty() ? "" : ", ") + quoted(e.name) + ": " + as_yaml(*e.value);
      return "{" + out + "}";
  }
  return out;
}

node_ptr make_scalar(node_kind kind, std::string text, place at) {
  node made;
  made.kind = kind;
  made.text = std::move(text);
  made.at = at;
  return std::make_shared<const node>(std::move(made));
}

node_ptr make_mapping(std::string name, place at, node_ptr value) {
  node made;
  made.kind = node_kind::mapping;
  made.at = at;
  made.nodes = 1 + value->nodes;
  made.height = 1 + value->height;
  made.entries.push_back({std::move(name), at, std::move(value)});
  return std::make_shared<const node>(std::move(made));
}

node_ptr overlaid(const node_ptr& under, const node_ptr& over) {
  if (under->kind != node_kind::mapping || over->kind != node_kind::mapping) return over;
  node made = *under;
  for (const entry& e : over->entries) {
    const auto same = std::ranges::find(made.entries, e.name, &entry::name);
    if (same == made.entries.end())
      made.entries.push_back(e);
    else
      *same = {e.name, e.at, overlaid(same->value, e.value)};
  }
  made.nodes = 1;
  made.height = 1;
  for (const entry& e : made.entries) {
    made.nodes += e.value->nodes;
    made.height = std::max(made.height, 1 + e.value->height);
  }
  return std::make_shared<const node>(std::move(made));
}

}  // namespace troupe::config
