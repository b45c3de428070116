// The layers of a model that are split over tensor ranks, in the form of DeepSpeed's `tensor_parallel` section. Owns
// the form of `partition_config`; job/tensor/partition.hpp applies it to a model.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/document/place.hpp"

namespace troupe::config {

struct node;

/// Along which dimension a linear layer is split: its outputs (column), its inputs (row) or none (skip).
enum class partition_type : uint8_t { column, row, skip };

/// Returns "column", "row" or "skip".
std::string_view name_of(partition_type type);

/// One dimension in the key `shape` of a layer_spec, which describes blocks (such as queries, keys and values) that are
/// packed in one weight.
struct shape_part {
  bool nested = false;  ///< true: the dimension is given as a list; false: as a number
  /// The given numbers. Nested: sizes of the blocks. Not nested: a single number, which is the number of equal blocks
  /// in the first dimension (-1: one block), and the number of inputs in the second (-1: any).
  std::vector<int64_t> sizes;
};

struct layer_spec {                   ///< an item of `layer_specs`
  std::vector<std::string> patterns;  ///< patterns of parameters' names, each matched from the start
  partition_type type = partition_type::column;
  /// Blocks that are packed side by side in the layer's outputs; empty: one block, or the family's own packing.
  std::vector<shape_part> shape;
  std::optional<uint32_t> dimension;
  std::vector<std::string> model_types;  ///< model types to which the item applies; empty: all
  bool gather_output = false;
  place at;
  std::string where;  ///< file and line of the item
};

struct partition_section {  ///< configuration section `tensor_parallel.partition_config`
  std::vector<layer_spec> specs;
  bool given = false;
  /// True: the specs of preset_model apply to layers that no item of layer_specs matches.
  bool use_default_specs = true;
  bool strict_mode = false;  ///< true: a linear layer without a spec is an error
  place at;                  ///< position of strict_mode in the input, if strict_mode is given
  std::string where;         ///< file and line of strict_mode
  std::string text;          ///< the mapping of the key partition_config as YAML on one line, as given
};

struct tensor_parallel_section {  ///< configuration section `tensor_parallel`, except for its degrees
  partition_section partition;
  std::string preset_model;  ///< key: preset_model; name of a preset of DeepSpeed's; empty: none
  /// Key: tp_grain_size; number of neighbouring elements of an MLP's inner width that are never split over ranks.
  uint64_t grain = 1;
  /// Key: injection_policy_tuple; ends of the names of a host's linear layers that are split along their inputs.
  std::vector<std::string> rows;
  std::optional<bool> vocabulary_head;  ///< key: vocab_parallel_lm_head; true: the head is split by the vocabulary
  /// Key: replace_with_kernel_inject; true: Troupe's layer norms replace the layer norms of a host's model.
  bool own_layers = false;
  /// True if the section chooses which layers are split.
  [[nodiscard]] bool chooses() const { return partition.given || !preset_model.empty(); }
};

/// Reads the mapping; `problem` receives each error, with its place and the name within the mapping, such as
/// "layer_specs[1].shape". An empty mapping counts as absent.
partition_section read_partition(
    const node& value, const std::function<void(place at, const std::string& name, std::string text)>& problem);

}  // namespace troupe::config
