#include "data/tokenizers/text/pattern_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "core/utf8.hpp"

namespace troupe::data {

core::result<pattern_machine> pattern_machine::make(const pattern_node& pattern) {
  pattern_machine out;
  const uint32_t match = out.add({.is = kind::match});
  TROUPE_ASSIGN(out.first_, out.build(pattern, match));
  if (out.may_be_empty()) return core::refused("the pattern matches the empty text, which is not supported");
  TROUPE_TRY(out.make_classes());
  out.is_one_character_ = pattern.is == pattern_node::kind::set;
  std::vector<bool> seen(out.nodes_.size());
  std::vector<uint32_t> nodes;
  out.follow(out.first_, seen, nodes);
  TROUPE_ASSIGN(out.start_, out.state_of(std::move(nodes)));
  return out;
}

uint32_t pattern_machine::add(node one) {
  nodes_.push_back(one);
  return static_cast<uint32_t>(nodes_.size() - 1);
}

core::result<uint32_t> pattern_machine::build(const pattern_node& part, uint32_t next) {
  if (nodes_.size() > most_pattern_parts)
    return core::refused(fmt::format("the pattern has more than {} parts", most_pattern_parts));
  switch (part.is) {
    case pattern_node::kind::set:
    case pattern_node::kind::look:
      sets_.push_back(part.set);
      return add({.is = part.is == pattern_node::kind::set ? kind::set : kind::look,
                  .at_end = part.at_end,
                  .set = static_cast<uint32_t>(sets_.size() - 1),
                  .next = next});
    case pattern_node::kind::sequence:
      for (size_t i = part.parts.size(); i > 0; --i) {
        TROUPE_ASSIGN(next, build(part.parts[i - 1], next));
      }
      return next;
    case pattern_node::kind::alternatives: {
      uint32_t out = 0;
      for (size_t i = part.parts.size(); i > 0; --i) {
        TROUPE_ASSIGN(const uint32_t one, build(part.parts[i - 1], next));
        out = i == part.parts.size() ? one : add({.is = kind::split, .next = one, .other = out});
      }
      return out;
    }
    case pattern_node::kind::repeat:
      break;
  }
  const auto& repeated = part.parts[0];
  const auto choice = [&](uint32_t again, uint32_t done) {
    return node{.is = kind::split, .next = part.is_greedy ? again : done, .other = part.is_greedy ? done : again};
  };
  uint32_t out = next;
  if (part.most) {
    for (uint32_t i = part.least; i < *part.most; ++i) {
      TROUPE_ASSIGN(const uint32_t again, build(repeated, out));
      out = add(choice(again, next));
    }
  } else {
    out = add({.is = kind::split});
    TROUPE_ASSIGN(const uint32_t again, build(repeated, out));
    nodes_[out] = choice(again, next);
  }
  for (uint32_t i = 0; i < part.least; ++i) {
    TROUPE_ASSIGN(out, build(repeated, out));
  }
  return out;
}

bool pattern_machine::may_be_empty() const {
  std::vector<bool> seen(nodes_.size());
  std::vector<uint32_t> left{first_};
  while (!left.empty()) {
    const uint32_t at = left.back();
    left.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    const auto& n = nodes_[at];
    if (n.is == kind::match) return true;
    if (n.is != kind::set) left.push_back(n.next);
    if (n.is == kind::split) left.push_back(n.other);
  }
  return false;
}

/// Divides all characters into classes, so that every set of the pattern contains a class wholly or not at all.
core::result<void> pattern_machine::make_classes() {
  std::vector<uint32_t> begins{0};
  for (const auto& set : sets_)
    for (const auto& r : set.ranges()) {
      begins.push_back(r.first);
      if (r.last + 1 < character_count) begins.push_back(r.last + 1);
    }
  std::ranges::sort(begins);
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  std::map<std::vector<bool>, uint8_t> class_with;
  std::vector<uint8_t> of_all(character_count);
  for (size_t i = 0; i < begins.size(); ++i) {
    std::vector<bool> in(sets_.size());
    for (size_t s = 0; s < sets_.size(); ++s) in[s] = sets_[s].has(begins[i]);
    if (!class_with.contains(in) && class_with.size() >= most_character_classes)
      return core::refused(
          fmt::format("the pattern tells more than {} kinds of characters apart", most_character_classes));
    const uint8_t one = class_with.emplace(std::move(in), static_cast<uint8_t>(class_with.size())).first->second;
    const uint32_t end = i + 1 < begins.size() ? begins[i + 1] : character_count;
    std::fill(of_all.begin() + begins[i], of_all.begin() + end, one);
  }
  classes_ = static_cast<uint32_t>(class_with.size());
  members_.resize(sets_.size() * classes_);
  for (const auto& [in, one] : class_with)
    for (size_t s = 0; s < in.size(); ++s) members_[s * classes_ + one] = static_cast<uint8_t>(in[s]);
  std::copy_n(of_all.begin(), ascii_.size(), ascii_.begin());
  std::map<std::string, uint16_t> page_with;
  for (uint32_t begin = 0; begin < character_count; begin += 256) {
    const auto page = std::span(of_all).subspan(begin, 256);
    const auto [at, is_new] =
        page_with.emplace(std::string(page.begin(), page.end()), static_cast<uint16_t>(page_with.size()));
    if (is_new) pages_.insert(pages_.end(), page.begin(), page.end());
    page_of_.push_back(at->second);
  }
  return {};
}

bool pattern_machine::may_have(uint32_t character) const {
  return std::ranges::any_of(sets_, [&](const auto& set) { return set.has(character); });
}

/// Appends the nodes with a condition on a character (or the match) that are reachable from node `from` through splits
/// alone, in the order of preference.
void pattern_machine::follow(uint32_t from, std::vector<bool>& seen, std::vector<uint32_t>& out) const {
  std::vector<uint32_t> left{from};
  while (!left.empty()) {
    const uint32_t at = left.back();
    left.pop_back();
    if (seen[at]) continue;
    seen[at] = true;
    if (nodes_[at].is == kind::split) {
      left.push_back(nodes_[at].other);
      left.push_back(nodes_[at].next);
    } else {
      out.push_back(at);
    }
  }
}

core::result<uint32_t> pattern_machine::state_of(std::vector<uint32_t> nodes) const {
  // Nodes after a match are never preferred to it.
  const auto match = std::ranges::find_if(nodes, [&](uint32_t n) { return nodes_[n].is == kind::match; });
  if (match != nodes.end()) nodes.erase(match + 1, nodes.end());
  if (nodes.empty()) return dead;
  if (const auto found = state_with_.find(nodes); found != state_with_.end()) return found->second;
  if (states_.size() >= most_pattern_states)
    return fail(error_kind::limit, fmt::format("the pattern needs more than {} states", most_pattern_states));
  const auto out = static_cast<uint32_t>(states_.size());
  state_with_.emplace(nodes, out);
  ends_here_.push_back(static_cast<uint8_t>(nodes_[nodes[0]].is == kind::match));
  transitions_.resize(transitions_.size() + classes_ + 1, unknown);
  states_.push_back(std::move(nodes));
  return out;
}

core::result<uint32_t> pattern_machine::step(uint32_t state, uint32_t symbol) const {
  auto& known = transitions_[state * (classes_ + 1) + symbol];
  if (known != unknown) return known;
  std::vector<bool> seen_here(nodes_.size()), seen_next(nodes_.size());
  std::vector<uint32_t> next, left(states_[state].rbegin(), states_[state].rend());
  bool has_match = false;
  while (!left.empty() && !has_match) {
    const uint32_t at = left.back();
    left.pop_back();
    if (seen_here[at]) continue;
    seen_here[at] = true;
    const auto& n = nodes_[at];
    const bool is_end = symbol == classes_;
    if (n.is == kind::match) {
      has_match = true;
    } else if (n.is == kind::split) {
      left.push_back(n.other);
      left.push_back(n.next);
    } else if (n.is == kind::look) {
      if (is_end ? n.at_end : is_in(n.set, symbol)) left.push_back(n.next);
    } else if (!is_end && is_in(n.set, symbol)) {
      follow(n.next, seen_next, next);
    }
  }
  TROUPE_ASSIGN(const uint32_t to, state_of(std::move(next)));
  const uint32_t out = to * 2 + (has_match ? 1 : 0);
  transitions_[state * (classes_ + 1) + symbol] = out;  // `known` may have moved
  return out;
}

core::result<pattern_find> pattern_machine::find(std::string_view text, size_t from, bool is_open) const {
  uint64_t examined = 0;
  for (size_t at = from; at < text.size();) {
    std::optional<size_t> end;
    uint32_t state = start_;
    size_t place = at, first_bytes = 0;
    for (;;) {
      if (ends_here_[state] != 0) {
        end = place;
        break;
      }
      if (place == text.size() && is_open) return pattern_find{pattern_find::kind::open, at, at};
      uint32_t symbol = classes_;
      size_t bytes = 0;
      if (place < text.size()) {
        const auto byte = static_cast<unsigned char>(text[place]);
        bytes = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
        symbol = byte < 0x80 ? ascii_[byte] : class_of(core::utf8_code(text.substr(place)));
        if (place == at) first_bytes = bytes;
      }
      uint32_t to = transitions_[state * (classes_ + 1) + symbol];
      if (to == unknown) {
        TROUPE_ASSIGN(to, step(state, symbol));
      }
      if ((to & 1U) != 0) end = place;
      state = to >> 1U;
      if (state == dead || symbol == classes_) break;
      place += bytes;
    }
    if (end) return pattern_find{pattern_find::kind::found, at, *end};
    examined += place - at;
    if (examined > most_attempts * (text.size() - from) + (uint64_t{1} << 20))
      return fail(error_kind::limit, fmt::format("the pattern examines each of {} bytes of the text more than {} times",
                                                 text.size() - from, most_attempts));
    at += first_bytes;
  }
  return pattern_find{};
}

}  // namespace troupe::data
