// Finds the merges of a byte-pair vocabulary whose file states only the order of its words, as SentencePiece's and
// tiktoken's files do.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::data {

/// Returns the merges that make the `words`, which are unique and in the order in which they are made: every pair
/// (left, right) of indices of words whose texts together are a word, by the index of that word, then by left and
/// right. Merging pairs in the order of this list gives the same tokens as merging the pair whose word comes first.
std::vector<std::array<uint32_t, 2>> merges_into(std::span<const std::string> words);

}  // namespace troupe::data
