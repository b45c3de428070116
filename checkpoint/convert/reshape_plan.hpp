// Decides which tensors each model-parallel rank has at other degrees: pipeline layers by parameters' names, stages by
// layers, tensor-parallel slices by rules. Makes lists of pieces only; reshape.hpp writes them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/deepspeed/degrees.hpp"
#include "checkpoint/megatron/source.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

struct pipeline_map {
  std::map<std::string, layer_place, std::less<>> places;  ///< by the tensor's name
  /// What stands in front of the keys of a layer, where that is not its number: a model that was no pipeline. By layer.
  std::map<uint32_t, std::string> prefixes;
};

/// Layers by names. A pipeline's own names begin with their layer's number; `tied_modules.*` go to layer 1, or to 0
/// where the pipeline begins there. In any other model blocks are what is in front of the first number in a name; what
/// comes before the first block is layer 0, the blocks follow, then all the rest. Refused: no blocks.
core::result<pipeline_map> pipeline_map_of(const tensor_source& whole);

/// The name that a pipeline has for a tensor; its own where the map does not know it.
std::string pipeline_name(const pipeline_map& map, const std::string& name);

/// By layer its stage. `partition`: the number of each stage's first layer. Empty: the first layer is the first
/// stage's, the last one the last's, those between are divided evenly, where they do not divide the first stages have
/// one more. Refused: fewer layers than stages; a partition of another length or that leaves a stage without a layer.
core::result<std::map<uint32_t, uint32_t>> stages_of(const pipeline_map& map, uint32_t stages,
                                                     const std::vector<uint32_t>& partition = {});

/// Which rank has what. A rank's list of pieces is made when it is asked for, since all lists together may be long.
class reshape_plan {
 public:
  /// `whole` outlives the plan. `partition`: see stages_of(), `zeros`: split_entry(). Refused: what the rules cannot
  /// cut, tensor-parallel ranks where no rule cuts anything, and what pipeline_map_of() and stages_of() refuse.
  static core::result<reshape_plan> create(const tensor_source& whole, const parallel_degrees& to, rule_chooser rules,
                                           const std::vector<uint32_t>& partition, std::optional<uint32_t> zeros);

  [[nodiscard]] const tensor_source& whole() const { return *whole_; }
  [[nodiscard]] const parallel_degrees& to() const { return to_; }
  [[nodiscard]] uint32_t ranks() const { return to_.pipeline * to_.tensor; }
  [[nodiscard]] uint64_t bytes() const { return bytes_; }         ///< of all ranks' tensors
  [[nodiscard]] const pipeline_map& map() const { return map_; }  ///< of a pipeline; empty else

  /// The source of rank stage * tensor degree + place in the stage; `tied_modules.*` are the last stage's too. Names of
  /// a model that becomes a pipeline get their layer's number in front.
  [[nodiscard]] core::result<tensor_source> rank(uint32_t number) const;

 private:
  [[nodiscard]] bool is_elsewhere(const std::string& name, uint32_t stage) const;
  const tensor_source* whole_ = nullptr;
  parallel_degrees to_;
  rule_chooser rules_;
  std::optional<uint32_t> zeros_;
  pipeline_map map_;
  std::map<uint32_t, uint32_t> stage_of_;  ///< by layer
  uint64_t bytes_ = 0;
};

/// Elements of zeros that the cutting needs at most in one piece; 0 where it needs none.
core::result<uint64_t> padding_bytes(const tensor_source& whole, uint32_t tensor, const rule_chooser& rules);

}  // namespace troupe::checkpoint
