#include "data/tokenizers/text/charsmap.hpp"

#include <fmt/format.h>

#include <span>

#include "core/utf8.hpp"
#include "data/tokenizers/text/base64.hpp"
#include "data/tokenizers/text/characters.hpp"
#include "data/tokenizers/text/sentencepiece_rules.hpp"

namespace troupe::data {
namespace {

/// Returns the offset that a unit of a Darts trie stores; the offset is relative to the unit's own index.
constexpr uint32_t offset_in(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

}  // namespace

core::result<charsmap> charsmap::make(std::string_view base64) {
  const auto bytes = from_base64(base64);
  if (!bytes) return core::refused("wanted text in base 64");
  const std::string& table = *bytes;
  if (const auto fault = fault_in_rules(std::as_bytes(std::span(table))); !fault.empty())
    return core::refused(fmt::format("wanted a table of rules, got {}", fault));
  charsmap out;
  if (table.empty()) return out;
  const auto number_at = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 4; i > 0; --i) value = value << 8 | static_cast<unsigned char>(table[at + i - 1]);
    return value;
  };
  const size_t trie_bytes = number_at(0);
  for (size_t at = 0; at < trie_bytes; at += 4) out.units_.push_back(number_at(4 + at));
  out.texts_ = table.substr(4 + trie_bytes);
  if (!core::is_utf8(out.texts_)) return core::refused("wanted rules that write UTF-8");
  return out;
}

bool charsmap::append_rewritten(std::string_view part, std::string& out) const {
  constexpr uint32_t label_bits = 0x800000FF, leaf_bit = 0x100, value_bits = 0x7FFFFFFF;
  if (units_.empty()) return false;
  uint32_t at = offset_in(units_[0]);
  for (const char c : part) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return false;
    at ^= byte;
    if (at >= units_.size() || (units_[at] & label_bits) != byte) return false;
    const bool is_rule = (units_[at] & leaf_bit) != 0;
    at ^= offset_in(units_[at]);
    if (at >= units_.size()) return false;
    if (!is_rule) continue;
    const size_t begin = units_[at] & value_bits;
    if (begin >= texts_.size()) return false;
    const auto written = std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin);
    if (!core::is_utf8(written)) return false;  // the rule points into a character
    out += written;
    return true;
  }
  return false;
}

std::string charsmap::rewritten(std::string_view text) const {
  constexpr size_t longest_cluster = 5;
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const auto cluster = text.substr(0, cluster_bytes(text));
    if (cluster.size() > longest_cluster || !append_rewritten(cluster, out)) {
      for (size_t at = 0; at < cluster.size();) {
        const auto one = cluster.substr(at, core::utf8_character(cluster.substr(at)));
        if (!append_rewritten(one, out)) out += one;
        at += one.size();
      }
    }
    text.remove_prefix(cluster.size());
  }
  return out;
}

}  // namespace troupe::data
