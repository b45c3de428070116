// Which layers of a model are cut over tensor ranks, as DeepSpeed's `tensor_parallel` section says it. Owns the form of
// `partition_config`; what it means for a model is job/tensor/partition.hpp's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/document/document.hpp"

namespace troupe::config {

enum class partition_type : uint8_t { column, row, skip };  ///< a layer's outputs, its inputs, nothing

/// "column", "row", "skip"
std::string_view name_of(partition_type type);

struct shape_part {            ///< an entry of `shape`
  bool nested = false;         ///< a list: sizes of blocks side by side
  std::vector<int64_t> sizes;  ///< one where it is no list; -1: what is left
};

struct layer_spec {                   ///< an item of `layer_specs`
  std::vector<std::string> patterns;  ///< of parameters' names, each from its start
  partition_type type = partition_type::column;
  std::vector<shape_part> shape;  ///< how outputs are packed; none: one block, or the family's own
  std::optional<uint32_t> dimension;
  std::vector<std::string> model_types;  ///< that it is for; none: all
  bool gather_output = false;
  place at;
  std::string where;  ///< file and line
};

struct partition_section {  ///< `tensor_parallel.partition_config`
  std::vector<layer_spec> specs;
  bool given = false;
  bool use_default_specs = true;  ///< those of preset_model follow
  bool strict_mode = false;       ///< a linear layer without a spec is an error
  place at;                       ///< of strict_mode, where it is given
  std::string where;              ///< file and line of that
  std::string text;               ///< as given, on one line
};

struct tensor_parallel_section {  ///< `tensor_parallel`, but for its degrees
  partition_section partition;
  std::string preset_model;             ///< empty: none
  uint64_t grain = 1;                   ///< tp_grain_size
  std::vector<std::string> rows;        ///< injection_policy_tuple: of a host's modules
  std::optional<bool> vocabulary_head;  ///< vocab_parallel_lm_head
  bool own_layers = false;              ///< replace_with_kernel_inject: in a host's modules
  /// Whether it says what is cut.
  [[nodiscard]] bool chooses() const { return partition.given || !preset_model.empty(); }
};

/// Reads the mapping; `problem` gets what is wrong with it, by place and by the name within the mapping, such as
/// "layer_specs[1].shape". An empty mapping is as none.
partition_section read_partition(
    const node& value, const std::function<void(place at, const std::string& name, std::string text)>& problem);

}  // namespace troupe::config
