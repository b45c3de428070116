// Sources of a tensor-parallel model's ranks to one whole source and back, as lists of pieces: nothing is read here.
// Owns the lists; the rules are rules.hpp's, finding the ranks' files is left to each format's reader.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "checkpoint/megatron/rules.hpp"
#include "checkpoint/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// How a parameter is cut, by name.
using rule_chooser = std::function<core::result<cut_rule>(std::string_view name)>;

/// megatron_rule for all names, of a model with that version.
rule_chooser megatron_rules_of(qkv_version version);

/// Adds elements [first, first + count) of `from` as pieces from element `at` on; neighbours become one piece. Digests
/// are dropped where a piece is cut.
void append_elements(std::vector<piece>& to, const tensor_entry& from, uint64_t first, uint64_t count, uint64_t at);

/// The whole tensor of what all ranks hold of it; the entries' pieces name files of one common list. Refused: kinds,
/// moments or types that differ, shapes that do not fit the rule, an averaged one (it has no pieces: see `averaged`).
core::result<tensor_entry> merged_entry(const cut_rule& rule, std::span<const tensor_entry* const> ranks);

/// Each rank's tensor of a whole one. Padding of a vocabulary is read from file `zeros`, which has nothing but zero
/// bytes; refused where that is needed and not there.
core::result<std::vector<tensor_entry>> split_entry(const cut_rule& rule, const tensor_entry& whole, uint32_t ranks,
                                                    std::optional<uint32_t> zeros = std::nullopt);

/// What a merge leaves to its caller: a tensor whose value is the mean of the ranks'.
struct averaged_tensor {
  size_t tensor = 0;                 ///< place in the merged source's tensors; holds rank 0's value until replaced
  std::vector<tensor_entry> values;  ///< of all ranks
};

/// The ranks' tensors as whole ones.
struct merged_source {
  tensor_source whole;
  std::vector<averaged_tensor> averaged;
};

/// Joins the sources of ranks 0, 1 ... of one model. The run, tied names and the parameters' order are the first
/// rank's, digests are gone. Refused: no ranks, a tensor that some ranks have and others not.
core::result<merged_source> merge_ranks(std::vector<tensor_source> ranks, const rule_chooser& rules);

/// Rank `rank`'s tensor alone, of as many as the cut has slices.
core::result<tensor_entry> slice_entry(const tensor_cut& cut, const tensor_entry& whole, uint32_t rank,
                                       std::optional<uint32_t> zeros = std::nullopt);

/// A tensor list for each rank.
struct split_sources {
  std::vector<tensor_source> ranks;
  size_t cut = 0;  ///< tensors that are not on all ranks alike
};

/// The sources of `ranks` ranks. `zeros` as above: the number of such a file in `whole`.
core::result<split_sources> split_ranks(const tensor_source& whole, uint32_t ranks, const rule_chooser& rules,
                                        std::optional<uint32_t> zeros = std::nullopt);

/// The tensor's query_key_value rows put from one version's order into another's, of all heads (a whole tensor).
/// Refused: a first dimension that `heads` heads do not divide into.
core::result<tensor_entry> reordered_qkv(const tensor_entry& whole, qkv_version from, qkv_version to, uint32_t heads);

}  // namespace troupe::checkpoint
