#include "data/tokenizers/text/sentencepiece_rules.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::data {
namespace {

constexpr size_t unit_bytes = 4;
/// Number of units (elements of the double array) in a block. A node and its children are in one block: a child's index
/// is the node's index, changed by exclusive or with the text's byte.
constexpr uint32_t block_units = 256;

uint32_t number_at(std::span<const std::byte> bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = unit_bytes; i > 0; --i) value = value << 8 | std::to_integer<uint32_t>(bytes[at + i - 1]);
  return value;
}

/// Checks the compiled normalisation rules by following every path in their trie.
class trie_walk {
 public:
  trie_walk(std::span<const std::byte> trie, size_t text_bytes)
      : trie_(trie), text_bytes_(text_bytes), rules_(trie.size() / unit_bytes, unseen) {}

  std::string_view fault() {
    std::vector<visit> path;
    if (const auto root = child_of(0); root)
      path.push_back({*root, 0, 0, false});
    else
      return outside;
    rules_[path.back().node] = open;
    while (!path.empty()) {
      auto& here = path.back();
      if (here.next == block_units) {
        const visit done = here;
        path.pop_back();
        rules_[done.node] = done.deepest;
        if (path.empty()) break;
        if (!path.back().take(done.is_rule, done.deepest)) return nested;
        continue;
      }
      const uint32_t label = here.next++, at = here.node ^ label, unit = unit_at(at);
      if ((unit & label_bits) != label) continue;
      has_inner_blank_ |= path.size() > 1 && (label == ' ' || label == '\n');
      const auto child = child_of(at);
      if (!child) return outside;
      const bool is_rule = (unit & leaf_bit) != 0;
      if (is_rule && (unit_at(*child) & value_bits) >= text_bytes_) return outside;
      if (rules_[*child] == open) return "rules that never end";
      if (rules_[*child] != unseen) {
        if (!here.take(is_rule, rules_[*child])) return nested;
      } else {
        rules_[*child] = open;
        path.push_back({*child, 0, 0, is_rule});
      }
    }
    return {};
  }
  /// True if fault() has found a rule whose text has a blank or a line break after its first byte.
  [[nodiscard]] bool has_inner_blank() const { return has_inner_blank_; }

 private:
  static constexpr uint32_t label_bits = 0x800000FF, leaf_bit = 0x100, value_bits = 0x7FFFFFFF;
  /// Marks of a node that was not visited, or whose visit has not ended; larger than any number of rules.
  static constexpr uint8_t unseen = 0xFF, open = 0xFE;
  static constexpr std::string_view outside = "rules that lead out of their table", nested = "too many rules in a row";

  struct visit {
    uint32_t node;
    uint32_t next;    ///< next byte value, from 0 to 255, whose child of `node` is visited
    uint8_t deepest;  ///< largest number of rules on a path below the node
    bool is_rule;     ///< true: the text that leads to the node is the left side of a rule
    bool take(bool rule, uint8_t below) {
      deepest = std::max(deepest, static_cast<uint8_t>(below + (rule ? 1 : 0)));
      return deepest <= max_nested_rules;
    }
  };

  [[nodiscard]] uint32_t unit_at(uint32_t at) const { return number_at(trie_, size_t{at} * unit_bytes); }
  /// Returns the node to which the trie's unit at index `at` leads; nullopt if that node is outside the trie.
  [[nodiscard]] std::optional<uint32_t> child_of(uint32_t at) const {
    const uint32_t unit = unit_at(at), offset = (unit >> 10) << ((unit & 0x200) >> 6);
    return (at ^ offset) < rules_.size() ? std::optional(at ^ offset) : std::nullopt;
  }

  std::span<const std::byte> trie_;
  size_t text_bytes_;
  std::vector<uint8_t> rules_;  ///< [node]: largest number of rules on a path below it
  bool has_inner_blank_ = false;
};

}  // namespace

std::string_view fault_in_rules(std::span<const std::byte> table, bool* has_inner_blank) {
  if (table.empty()) return {};
  const size_t trie_bytes = table.size() < unit_bytes ? 0 : number_at(table, 0);
  if (trie_bytes == 0 || trie_bytes % (unit_bytes * block_units) != 0 || trie_bytes >= table.size() - unit_bytes)
    return "a table of rules of another size";
  if (table.back() != std::byte{0}) return "a rule with a text that has no end";
  trie_walk walk(table.subspan(unit_bytes, trie_bytes), table.size() - unit_bytes - trie_bytes);
  const auto fault = walk.fault();
  if (has_inner_blank) *has_inner_blank |= walk.has_inner_blank();
  return fault;
}

}  // namespace troupe::data
