// The layers of a model that are split over tensor ranks, in the form of DeepSpeed's `tensor_parallel` section. Owns
// the form of `partition_config`; job/tensor/partition.hpp applies it to a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/document/document.hpp"

namespace troupe::config {

enum class partition_type : uint8_t { column, row, skip };  ///< split dimension of a layer: outputs, inputs, none

/// Returns "column", "row" or "skip".
std::string_view name_of(partition_type type);

struct shape_part {     ///< one dimension in a layer's `shape`, from which the packing of the layer's outputs follows
  bool nested = false;  ///< true: a list with the sizes of blocks side by side
  /// sizes of the blocks, a single one if the entry is no list; -1: the remaining elements
  std::vector<int64_t> sizes;
};

struct layer_spec {                   ///< an item of `layer_specs`
  std::vector<std::string> patterns;  ///< patterns of parameters' names, each matched from the start
  partition_type type = partition_type::column;
  std::vector<shape_part> shape;  ///< packing of the outputs; empty: one block, or the family's own packing
  std::optional<uint32_t> dimension;
  std::vector<std::string> model_types;  ///< model types to which it applies; empty: all
  bool gather_output = false;
  place at;
  std::string where;  ///< file and line of the item
};

struct partition_section {  ///< configuration section `tensor_parallel.partition_config`
  std::vector<layer_spec> specs;
  bool given = false;
  bool use_default_specs = true;  ///< true: the specs of preset_model follow
  bool strict_mode = false;       ///< true: a linear layer without a spec is an error
  place at;                       ///< position of strict_mode in the input, if strict_mode is given
  std::string where;              ///< file and line of strict_mode
  std::string text;               ///< the given mapping on one line
};

struct tensor_parallel_section {  ///< configuration section `tensor_parallel`, except for its degrees
  partition_section partition;
  std::string preset_model;             ///< name of DeepSpeed's preset; empty: none
  uint64_t grain = 1;                   ///< key: tp_grain_size; elements of an MLP's inner width that stay on one rank
  std::vector<std::string> rows;        ///< key: injection_policy_tuple; names among a host's modules
  std::optional<bool> vocabulary_head;  ///< key: vocab_parallel_lm_head; true: the head is split by the vocabulary
  bool own_layers = false;              ///< key: replace_with_kernel_inject; true: our layer norms replace a host's
  /// True if the section chooses which layers are split.
  [[nodiscard]] bool chooses() const { return partition.given || !preset_model.empty(); }
};

/// Reads the mapping; `problem` receives each error, with its place and the name within the mapping, such as
/// "layer_specs[1].shape". An empty mapping counts as absent.
partition_section read_partition(
    const node& value, const std::function<void(place at, const std::string& name, std::string text)>& problem);

}  // namespace troupe::config
