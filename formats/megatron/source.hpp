// Joins the sources of a tensor-parallel model's ranks to one source and splits one into many, as lists of pieces; no
// data is read. Owns the lists; leaves the rules to rules.hpp and finding the ranks' files to each format's reader.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/megatron/rules.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Function that returns how a parameter is cut over tensor-parallel ranks, by the parameter's name.
using rule_chooser = std::function<core::result<cut_rule>(std::string_view name)>;

/// Returns a chooser that applies megatron_rule() with `version` to every name.
rule_chooser megatron_rules_of(qkv_version version);

/// Appends elements [first, first + count) of the tensor `from` to `to`, the pieces of another tensor, as its elements
/// [at, at + count); adjacent pieces become one. A piece that is cut or joined loses its digest.
void append_elements(std::vector<piece>& to, const tensor_entry& from, uint64_t first, uint64_t count, uint64_t at);

/// Returns the whole tensor that the ranks' entries form. The entries' pieces must name files of one common list.
/// Refused: kinds, moments or types that differ, shapes that do not fit the rule, and an averaged tensor, which has no
/// pieces (see averaged_tensor).
core::result<tensor_entry> merged_entry(const cut_rule& rule, std::span<const tensor_entry* const> ranks);

/// Returns the slices of the tensor `whole`, one for each rank. Padding of a vocabulary is read from file number
/// `zeros`, which contains only zero bytes; refused if padding is needed and `zeros` is missing.
core::result<std::vector<tensor_entry>> split_entry(const cut_rule& rule, const tensor_entry& whole, uint32_t ranks,
                                                    std::optional<uint32_t> zeros = std::nullopt);

/// A tensor that the caller of merge_ranks() must compute: its value is the mean of the ranks' values.
struct averaged_tensor {
  /// index in the merged source's tensors; the entry at this index has rank 0's value until the caller replaces it
  size_t tensor = 0;
  std::vector<tensor_entry> values;  ///< entry of the tensor on each rank
};

/// The source of a whole model, joined from its ranks, and the tensors that are still to be averaged.
struct merged_source {
  tensor_source whole;
  std::vector<averaged_tensor> averaged;
};

/// Joins the sources of ranks 0, 1 ... of one model. Copies the run, the tied names and the order of parameters from
/// the first rank, and drops digests. Refused: no ranks, a tensor that only some ranks have.
core::result<merged_source> merge_ranks(std::vector<tensor_source> ranks, const rule_chooser& rules);

/// Returns the slice of the tensor `whole` for rank `rank`; `cut` has one slice for each rank. `zeros` is the number of
/// a file of zero bytes, for padding.
core::result<tensor_entry> slice_entry(const tensor_cut& cut, const tensor_entry& whole, uint32_t rank,
                                       std::optional<uint32_t> zeros = std::nullopt);

/// One tensor source for each rank of a split model.
struct split_sources {
  std::vector<tensor_source> ranks;
  size_t cut = 0;  ///< number of tensors that are not the same on all ranks
};

/// Splits `whole` over `ranks` ranks. `zeros` is the number of a file of `whole` that holds only zero bytes, for
/// padding.
core::result<split_sources> split_ranks(const tensor_source& whole, uint32_t ranks, const rule_chooser& rules,
                                        std::optional<uint32_t> zeros = std::nullopt);

/// Returns the whole query_key_value tensor with its rows in the order `to` instead of `from`. Refused: a first
/// dimension that does not divide into `heads` heads.
core::result<tensor_entry> reordered_qkv(const tensor_entry& whole, qkv_version from, qkv_version to, uint32_t heads);

}  // namespace troupe::formats
