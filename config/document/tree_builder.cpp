#include "config/document/tree_builder.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/utf8.hpp"

namespace troupe::config {

bool tree_builder::wants_name() const {
  return !open_.empty() && open_.back().value.kind == node_kind::mapping && !open_.back().pending;
}

void tree_builder::count(size_t nodes, place where) {
  nodes_ += nodes;
  if (nodes_ > most_nodes)
    throw refusal{where,
                  fmt::format("wanted at most {} values, aliases counted as often as they are used", most_nodes)};
}

void tree_builder::open(node_kind kind, place where, size_t anchor) {
  if (wants_name())
    throw refusal{where, "wanted a name in front of ':', got a list or a mapping; is a bracket not closed?"};
  if (static_cast<int>(open_.size()) >= deepest_nesting)
    throw refusal{where, fmt::format("wanted at most {} levels of nesting", deepest_nesting)};
  count(1, where);
  open_.emplace_back();
  open_.back().value.kind = kind;
  open_.back().value.at = where;
  open_.back().anchor = anchor;
}

void tree_builder::take_over(frame& into, const entry& merge) {
  const bool list = merge.value->kind == node_kind::sequence;
  const std::vector<node_ptr> from = list ? merge.value->items : std::vector<node_ptr>{merge.value};
  for (const node_ptr& one : from) {
    if (one->kind != node_kind::mapping)
      throw refusal{merge.at, "wanted a mapping, or a list of mappings, to merge, got " + shown(*one)};
    count(one->entries.size(), merge.at);
    for (const entry& e : one->entries)  // a name that the mapping, or an earlier merge, already has is skipped
      if (into.names.try_emplace(e.name, e.at).second) into.value.entries.push_back(e);
    into.value.nodes += one->entries.size();
    into.value.height = std::max(into.value.height, one->height);
  }
}

void tree_builder::close() {
  if (open_.back().merge) take_over(open_.back(), *open_.back().merge);
  node done = std::move(open_.back().value);
  const size_t anchor = open_.back().anchor;
  open_.pop_back();
  add(std::make_shared<const node>(std::move(done)), anchor);
}

void tree_builder::scalar(node_kind kind, std::string text, place where, size_t anchor) {
  if (!wants_name()) {
    count(1, where);
    add(make_scalar(kind, std::move(text), where), anchor);
    return;
  }
  if (kind == node_kind::null) throw refusal{where, "wanted a name in front of ':', got nothing"};
  open_.back().pending_merge = merges_ && kind == node_kind::plain && text == "<<";
  open_.back().pending = entry{std::move(text), where, nullptr};
}

void tree_builder::alias(size_t anchor, place where) {
  if (wants_name()) throw refusal{where, "wanted a name in front of ':', got an alias"};
  const auto found = anchored_.find(anchor);
  if (found == anchored_.end()) throw refusal{where, "this alias is inside the value of its own anchor; remove it"};
  const node_ptr value = found->second;
  if (static_cast<int>(open_.size()) + value->height > deepest_nesting)
    throw refusal{where, fmt::format("wanted at most {} levels of nesting", deepest_nesting)};
  count(value->nodes, where);
  add(value, 0);
}

void tree_builder::add(node_ptr value, size_t anchor) {
  if (anchor != 0) anchored_[anchor] = value;
  if (open_.empty()) {
    root_ = std::move(value);
    return;
  }
  frame& parent = open_.back();
  parent.value.nodes += value->nodes;
  parent.value.height = std::max(parent.value.height, value->height + 1);
  if (parent.value.kind == node_kind::sequence) {
    parent.value.items.push_back(std::move(value));
    return;
  }
  entry named = std::move(*parent.pending);
  parent.pending.reset();
  named.value = std::move(value);
  const auto [first, is_new] = parent.names.try_emplace(named.name, named.at);
  if (is_new && parent.pending_merge) {
    parent.merge = std::move(named);
  } else if (is_new) {
    parent.value.entries.push_back(std::move(named));
  } else if (problems_.size() < most_diagnostics) {
    problems_.push_back(
        {named.at, named.name,
         fmt::format("given twice, first at line {}, column {}", first->second.line, first->second.column)});
  }
}

std::optional<refusal> unreadable(std::string_view text, uint32_t source) {
  if (text.size() > most_file_bytes)
    return refusal{{source, 1, 1}, fmt::format("wanted at most {} bytes, got {}", most_file_bytes, text.size())};
  place where{source, 1, 1};
  bool blank = true;
  for (size_t i = 0; i < text.size();) {
    if (text[i] == '\0') return refusal{where, "wanted text, got a NUL byte"};
    const size_t length = core::utf8_character(text.substr(i));
    if (length == 0) return refusal{where, "wanted UTF-8 text, got another encoding"};
    blank = blank && (text[i] == ' ' || text[i] == '\t' || text[i] == '\n' || text[i] == '\r');
    where.column = text[i] == '\n' ? 1 : where.column + 1;
    where.line += text[i] == '\n' ? 1 : 0;
    i += length;
  }
  if (blank) return refusal{{source, 1, 1}, "wanted a mapping of keys to values, got nothing"};
  return std::nullopt;
}

}  // namespace troupe::config
