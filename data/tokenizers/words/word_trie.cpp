#include "data/tokenizers/words/word_trie.hpp"

#include <algorithm>

namespace troupe::data {

word_trie::word_trie(const std::vector<std::string>& words) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < words.size(); ++i)
    if (!words[i].empty()) order.push_back(i);
  std::ranges::stable_sort(order, {}, [&](uint32_t i) { return std::string_view(words[i]); });
  nodes_.emplace_back();
  bytes_.push_back(0);
  struct range {
    uint32_t node;
    size_t begin, end, depth;
  };
  std::vector<range> left{{0, 0, order.size(), 0}};
  while (!left.empty()) {
    auto [at, begin, end, depth] = left.back();
    left.pop_back();
    for (; begin < end && words[order[begin]].size() == depth; ++begin) {
      nodes_[at].word = order[begin];
      longest_ = std::max(longest_, depth);
    }
    nodes_[at].children = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char byte = words[order[begin]][depth];
      size_t next = begin;
      while (next < end && words[order[next]][depth] == byte) ++next;
      left.push_back({static_cast<uint32_t>(nodes_.size()), begin, next, depth + 1});
      nodes_.emplace_back();
      bytes_.push_back(static_cast<unsigned char>(byte));
      ++nodes_[at].count;
      begin = next;
    }
  }
}

uint32_t word_trie::child_of(uint32_t at, unsigned char byte) const {
  const auto first = bytes_.begin() + nodes_[at].children, last = first + nodes_[at].count;
  const auto found = std::lower_bound(first, last, byte);
  return found == last || *found != byte ? none : static_cast<uint32_t>(found - bytes_.begin());
}

bool word_trie::has_word_across(std::string_view text, size_t at) const {
  for (size_t begin = at - std::min(at, longest_); begin < at; ++begin) {
    bool is_across = false;
    for_beginnings(text.substr(begin), [&](uint32_t, size_t bytes) {
      is_across = begin + bytes > at;
      return !is_across;
    });
    if (is_across) return true;
  }
  return false;
}

}  // namespace troupe::data
