// Finds the merges of a byte-pair vocabulary whose file has the order of its words only, as SentencePiece's and
// tiktoken's have.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace troupe::data {

/// Returns the merges into the words, which are in the order in which they are made: every pair (left, right) of
/// indices of words whose texts together are a word, by the index of that word, then by left and right. Words are
/// unique; each algorithm that merges the pair with the first word is also one that follows this list.
std::vector<std::array<uint32_t, 2>> merges_into(std::span<const std::string> words);

}  // namespace troupe::data
