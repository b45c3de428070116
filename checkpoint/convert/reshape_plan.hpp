// Decides which tensors each model-parallel rank has at other degrees: pipeline layers by the names of parameters,
// stages by layers, tensor-parallel slices by rules. Makes only lists of pieces; reshape.hpp writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/deepspeed/degrees.hpp"
#include "formats/megatron/source.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

struct pipeline_map {
  std::map<std::string, formats::layer_place, std::less<>>
      places;  ///< [name of a tensor]: its layer, and its name in the layer
  /// Prefix of the names of a layer's tensors in the source, by layer, if it is not the layer's number: `h.0.` in a
  /// model that was not a pipeline; `tied_modules.NAME.` in a pipeline, whose other layers are not in this map.
  std::map<uint32_t, std::string> prefixes;
};

/// Assigns tensors to layers by their names. In a pipeline names begin with the layer's number; `tied_modules.*` belong
/// to layer 1 if the lowest number is at least 2, else to layer 0. In any other model the text in front of the first
/// number in a name identifies a block; tensors before the first block are layer 0, the blocks follow, then all the
/// rest. Refused: no blocks.
core::result<pipeline_map> pipeline_map_of(const formats::tensor_source& whole);

/// Returns the name of a tensor in a pipeline; `name` itself if the map does not contain it or it begins with
/// `tied_modules.`.
std::string pipeline_name(const pipeline_map& map, const std::string& name);

/// Returns the stage of each layer. `partition`: the number of each stage's first layer. Empty: with at least stages +
/// 2 layers, the first layer belongs to the first stage and the last one to the last, and those between are divided
/// evenly; with fewer layers, all are divided evenly. If the number of layers to divide is not a multiple of the number
/// of stages, the first stages have one layer more. Refused: fewer layers than stages; a partition of another length or
/// one that leaves a stage without a layer.
core::result<std::map<uint32_t, uint32_t>> stages_of(const pipeline_map& map, uint32_t stages,
                                                     const std::vector<uint32_t>& partition = {});

/// The tensors of each model-parallel rank. rank() makes a rank's list of pieces anew on each call, because all lists
/// together may be long.
class reshape_plan {
 public:
  /// Makes the plan; `whole` must outlive it. `partition`: see stages_of(); `zeros`: see split_entry(). Refused:
  /// tensors that the rules cannot cut, tensor-parallel ranks if no rule cuts anything, and the cases that
  /// pipeline_map_of() and stages_of() refuse.
  static core::result<reshape_plan> create(const formats::tensor_source& whole, const formats::parallel_degrees& to,
                                           formats::rule_chooser rules, const std::vector<uint32_t>& partition,
                                           std::optional<uint32_t> zeros);

  [[nodiscard]] const formats::tensor_source& whole() const { return *whole_; }
  [[nodiscard]] const formats::parallel_degrees& to() const { return to_; }
  [[nodiscard]] uint32_t ranks() const { return to_.pipeline * to_.tensor; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }         ///< returns the size in bytes of all ranks' tensors
  [[nodiscard]] const pipeline_map& map() const { return map_; }  ///< returns an empty map if the output is no pipeline

  /// Returns the source of rank `number` = stage * tensor degree + rank in the stage; `tied_modules.*` also belong to
  /// the last stage. Names of a model that becomes a pipeline get their layer's number as prefix.
  [[nodiscard]] core::result<formats::tensor_source> rank(uint32_t number) const;

 private:
  [[nodiscard]] bool is_elsewhere(const std::string& name, uint32_t stage) const;
  const formats::tensor_source* whole_ = nullptr;
  formats::parallel_degrees to_;
  formats::rule_chooser rules_;
  std::optional<uint32_t> zeros_;
  pipeline_map map_;
  std::map<uint32_t, uint32_t> stage_of_;  ///< [number of a layer]: pipeline stage that holds the layer
  uint64_t bytes_ = 0;
};

/// Returns the bytes of zeros that padding needs in the tensor that needs most; 0 if no tensor is padded.
core::result<uint64_t> padding_bytes(const formats::tensor_source& whole, uint32_t tensor,
                                     const formats::rule_chooser& rules);

}  // namespace troupe::checkpoint
