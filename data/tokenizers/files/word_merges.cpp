#include "data/tokenizers/files/word_merges.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <unordered_map>

namespace troupe::data {

std::vector<std::array<uint32_t, 2>> merges_into(std::span<const std::string> words) {
  std::unordered_map<std::string_view, uint32_t> index_of;
  index_of.reserve(words.size());
  for (uint32_t i = 0; i < words.size(); ++i) index_of.emplace(words[i], i);
  std::vector<std::array<uint32_t, 2>> out, ways;
  for (const std::string& whole : words) {
    const std::string_view word = whole;
    ways.clear();
    for (size_t cut = 1; cut < word.size(); ++cut) {
      const auto left = index_of.find(word.substr(0, cut));
      if (left == index_of.end()) continue;
      if (const auto right = index_of.find(word.substr(cut)); right != index_of.end())
        ways.push_back({left->second, right->second});
    }
    std::ranges::sort(ways);
    out.insert(out.end(), ways.begin(), ways.end());
  }
  return out;
}

}  // namespace troupe::data
